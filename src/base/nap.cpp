// SPDX-License-Identifier: BSD-3-Clause
#include "base/nap.hpp"

#include <sys/prctl.h>
#include <time.h>

namespace via::base {

void nap(Nanoseconds span) noexcept {
    if (span <= 0) return;
    constexpr unsigned long exact = 1;  // 0 would stand for the default
    const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    const bool changes = slack > 1 && prctl(PR_SET_TIMERSLACK, exact, 0, 0, 0) == 0;
    const timespec rest{static_cast<time_t>(span / 1'000'000'000),
                        static_cast<long>(span % 1'000'000'000)};
    nanosleep(&rest, nullptr);
    if (changes) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack), 0, 0, 0);
}

}  // namespace via::base
