// SPDX-License-Identifier: BSD-3-Clause
// The monotonic clock for those who read it with every packet. On ARM the processor's counter is
// read directly, which takes a tenth of what clock_gettime() takes there, and set right by the
// system's clock every millisecond.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace via::base {

class QuickClock {
  public:
    [[nodiscard]] Nanoseconds now() noexcept {
#if defined(__aarch64__)
        std::uint64_t ticks;
        asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        if (ticks - set_at_ < valid_for_) [[likely]]
            return set_to_ + static_cast<Nanoseconds>(((ticks - set_at_) * scale_) >> 24U);
        return set(ticks);
#else
        return monotonic_now();
#endif
    }

  private:
#if defined(__aarch64__)
    [[nodiscard]] Nanoseconds set(std::uint64_t ticks) noexcept {
        std::uint64_t frequency;
        asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
        scale_ = (std::uint64_t{1'000'000'000} << 24U) / frequency;
        valid_for_ = frequency / 1000;
        set_at_ = ticks;
        // It does not go back.
        const Nanoseconds last = set_to_;
        set_to_ = monotonic_now();
        if (set_to_ < last) set_to_ = last;
        return set_to_;
    }
    std::uint64_t scale_ = 0;  ///< nanoseconds of a tick, times 2^24
    std::uint64_t valid_for_ = 0;
    std::uint64_t set_at_ = 0;
    Nanoseconds set_to_ = 0;
#endif
};

}  // namespace via::base
