// SPDX-License-Identifier: BSD-3-Clause
#include "base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace via::base {

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline,
                FutexScope scope) noexcept {
    const int private_flag = scope == FutexScope::Process ? FUTEX_PRIVATE_FLAG : 0;
    timespec until{};
    timespec* until_pointer = nullptr;
    if (!deadline.is_never()) {
        until.tv_sec = deadline.moment() / 1'000'000'000;
        until.tv_nsec = deadline.moment() % 1'000'000'000;
        until_pointer = &until;
    }
    // FUTEX_WAIT_BITSET takes an absolute monotonic time, so a retry after a signal loses nothing.
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | private_flag, expected, until_pointer, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope) noexcept {
    const int private_flag = scope == FutexScope::Process ? FUTEX_PRIVATE_FLAG : 0;
    syscall(SYS_futex, &word, FUTEX_WAKE | private_flag, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace via::base
