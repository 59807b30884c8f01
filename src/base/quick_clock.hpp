// SPDX-License-Identifier: BSD-3-Clause
// The monotonic clock for those who read it with every packet. The processor's counter is read
// directly, which takes a tenth of what clock_gettime() takes on ARM and two thirds on x86, and set
// right by the system's clock every millisecond.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

#if defined(__aarch64__)
#define VIA_QUICK_CLOCK 1
#elif defined(__x86_64__)
#include <x86intrin.h>
#define VIA_QUICK_CLOCK 1
#else
#define VIA_QUICK_CLOCK 0
#endif

namespace via::base {

#if defined(__x86_64__)
/// Does the kernel itself take the time from the processor's counter? Then it runs evenly, and is
/// the same on all processors.
[[nodiscard]] bool counter_is_clock() noexcept;
#endif

class QuickClock {
  public:
    [[nodiscard]] Nanoseconds now() noexcept {
#if VIA_QUICK_CLOCK
        const std::uint64_t ticks = counter();
        if (ticks - set_at_ < valid_for_) [[likely]]
            return set_to_ + static_cast<Nanoseconds>(((ticks - set_at_) * scale_) >> 24U);
        return set();
#else
        return monotonic_now();
#endif
    }

  private:
#if VIA_QUICK_CLOCK
    [[nodiscard]] static std::uint64_t counter() noexcept {
#if defined(__aarch64__)
        std::uint64_t ticks;
        asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
#else
        return __rdtsc();
#endif
    }
    [[nodiscard]] Nanoseconds set() noexcept {
        // Read behind the time: if the thread stood still between the two, the clock is late
        // until it is set again, but never early.
        [[maybe_unused]] const std::uint64_t before = counter();
        const Nanoseconds now = monotonic_now();
        const std::uint64_t ticks = counter();
        set_at_ = ticks;
        // It does not go back.
        if (set_to_ < now) set_to_ = now;
#if defined(__aarch64__)
        std::uint64_t frequency;
        asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
        scale_ = (std::uint64_t{1'000'000'000} << 24U) / frequency;
        valid_for_ = frequency / 1000;
#else
        constexpr std::uint64_t at_once = 4096;
        if (ticks - before < at_once) measure(ticks, now);
#endif
        return set_to_;
    }
#if defined(__x86_64__)
    /// How fast the counter runs is not told: it is seen. Until then the system's clock is read.
    void measure(std::uint64_t ticks, Nanoseconds now) noexcept {
        constexpr Nanoseconds long_enough = 10'000'000;
        constexpr Nanoseconds too_long = 1'000'000'000;
        const Nanoseconds span = now - first_;
        if (first_at_ != 0 && span >= long_enough && span < too_long && counter_is_clock()) {
            scale_ = (static_cast<std::uint64_t>(span) << 24U) / (ticks - first_at_);
            if (scale_ != 0) valid_for_ = (std::uint64_t{1'000'000} << 24U) / scale_;
        }
        if (first_at_ != 0 && span < too_long) return;
        first_at_ = ticks;
        first_ = now;
    }
    std::uint64_t first_at_ = 0;
    Nanoseconds first_ = 0;
#endif
    std::uint64_t scale_ = 0;  ///< nanoseconds of a tick, times 2^24
    std::uint64_t valid_for_ = 0;
    std::uint64_t set_at_ = 0;
    Nanoseconds set_to_ = 0;
#endif
};

}  // namespace via::base
