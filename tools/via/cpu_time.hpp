// SPDX-License-Identifier: BSD-3-Clause
// What a process has used of its processors so far.
#pragma once

#include <time.h>

#include "base/clock.hpp"

namespace via::tool {

/// User and system time of all threads of this process.
[[nodiscard]] inline base::Nanoseconds process_cpu_time() noexcept {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return base::Nanoseconds{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

}  // namespace via::tool
