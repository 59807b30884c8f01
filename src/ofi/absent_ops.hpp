// SPDX-License-Identifier: BSD-3-Clause
// The tables of operations that an object does not have: all of them say -FI_ENOSYS.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

namespace via::ofi {

extern fi_ops_msg no_messages;
extern fi_ops_tagged no_tagged;
extern fi_ops_rma no_rma;
extern fi_ops_atomic no_atomics;

}  // namespace via::ofi
