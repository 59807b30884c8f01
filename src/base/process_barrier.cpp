// SPDX-License-Identifier: BSD-3-Clause
#include "base/process_barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace via::base {
namespace {

bool register_process() noexcept {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

bool has_process_barrier() noexcept {
    static const bool registered = register_process();
    return registered;
}

void process_barrier() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Refused only if a forked child has lost the registration.
    while (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        if (!register_process()) return;
}

}  // namespace via::base
