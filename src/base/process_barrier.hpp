// SPDX-License-Identifier: BSD-3-Clause
// A memory barrier that one thread executes for all threads of its process (membarrier): those that
// do a thing often pay nothing, the one that must agree with them pays a system call.
#pragma once

namespace via::base {

/// False: the kernel has no such barrier.
[[nodiscard]] bool has_process_barrier() noexcept;
void process_barrier() noexcept;

}  // namespace via::base
