// SPDX-License-Identifier: BSD-3-Clause
// The whole C++ API: Nic, Memory, BufferPool, Buffer, Vi, Listener, CompletionQueue.
//
//     auto nic = via::Nic::open("shm0");
//     auto pool = nic->create_pool(8, 4096);
//     auto vi = nic->create_vi();
//     auto peer = vi->connect(nic->address("echo"), 5s);
//     via::Buffer buffer = pool->take();
//     buffer.assign("hello");
//     auto sent = vi->send(std::move(buffer));
//
// Every step returns an Expected: a value, or an Error with a code and a sentence.
#pragma once

#include "via/address.hpp"
#include "via/buffer.hpp"
#include "via/completion.hpp"
#include "via/completion_queue.hpp"
#include "via/descriptor.hpp"
#include "via/error.hpp"
#include "via/expected.hpp"
#include "via/listener.hpp"
#include "via/memory.hpp"
#include "via/nic.hpp"
#include "via/simulation.hpp"
#include "via/vi.hpp"
