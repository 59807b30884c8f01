// SPDX-License-Identifier: BSD-3-Clause
// What the conformance tests share: RAII over the C API, two connected ends, a second process,
// and waits that always end. Everything here talks to the library through vipl.h alone.
#pragma once

#include "vipl/harness/address.hpp"
#include "vipl/harness/arena.hpp"
#include "vipl/harness/conditions.hpp"
#include "vipl/harness/levels.hpp"
#include "vipl/harness/nic.hpp"
#include "vipl/harness/pair.hpp"
#include "vipl/harness/pattern.hpp"
#include "vipl/harness/peer_process.hpp"
#include "vipl/harness/vi.hpp"
