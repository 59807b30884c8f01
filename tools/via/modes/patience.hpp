// SPDX-License-Identifier: BSD-3-Clause
// Busy waiting that ends: looks again and again, lets others run now and then, and gives up.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/clock.hpp"
#include "base/cpu.hpp"

namespace via::tool {

class Patience {
  public:
    /// `looks_before_yield`: few where both sides share a core, many where each has its own.
    Patience(base::Nanoseconds limit, std::uint32_t looks_before_yield)
        : limit_(limit), looks_before_yield_(looks_before_yield) {}

    /// Asks `look` until it says yes. False: it never did in all that time.
    template <class Look>
    [[nodiscard]] bool wait(Look look) const {
        for (std::uint32_t looks = 1; looks < looks_before_yield_; ++looks)
            if (look()) return true;
        // The clock is only looked at from here on: a wait that is short costs no look at it.
        const base::Deadline deadline = base::Deadline::after(limit_);
        for (std::uint32_t looks = 1;; ++looks) {
            if (look()) return true;
            if (looks % looks_before_yield_ != 0) continue;
            sched_yield();
            if (deadline.expired()) return false;
        }
    }

  private:
    base::Nanoseconds limit_;
    std::uint32_t looks_before_yield_;
};

}  // namespace via::tool
