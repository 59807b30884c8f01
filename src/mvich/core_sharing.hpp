// SPDX-License-Identifier: BSD-3-Clause
// When a thread that polls in vain gives its core away: late while nobody else wants the core,
// since the wait is likely short; at once while others do, since they may be whom it waits for.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace via::mvich {

class CoreSharing {
  public:
    static constexpr std::uint32_t polls_alone = 1024;
    static constexpr std::uint32_t polls_between_alone = 32;
    static constexpr std::uint32_t polls_shared = 1;
    /// Giving a core away that nobody wants takes a quarter of a microsecond; two changes of the
    /// process take more than this.
    static constexpr base::Nanoseconds others_had_it = 1000;
    /// So often in a row nobody wants it before it counts as one's own: the others may be asleep or
    /// on another core for a moment.
    static constexpr std::uint32_t doubts = 16;
    static constexpr std::uint32_t times_unmeasured = 15;

    /// After so many empty polls in a row: is it time to give the core away?
    [[nodiscard]] bool due(std::uint32_t empty_polls) const noexcept {
        return empty_polls >= polls_before_.load(std::memory_order_relaxed) &&
               (empty_polls & mask_.load(std::memory_order_relaxed)) == 0;
    }
    /// Others want the core, as was seen a few times ago: how long it is away need not be measured.
    [[nodiscard]] bool surely_shared() noexcept {
        const std::uint32_t sure = sure_.load(std::memory_order_relaxed);
        if (sure != 0) sure_.store(sure - 1, std::memory_order_relaxed);
        return sure != 0;
    }
    /// It was given away, and was back after `away`.
    void came_back(base::Nanoseconds away) noexcept {
        if (away > others_had_it) {
            left_.store(doubts, std::memory_order_relaxed);
            sure_.store(times_unmeasured, std::memory_order_relaxed);
            pace(polls_shared, polls_shared);
            return;
        }
        const std::uint32_t left = left_.load(std::memory_order_relaxed);
        if (left > 1) return left_.store(left - 1, std::memory_order_relaxed);
        pace(polls_alone, polls_between_alone);
    }

  private:
    void pace(std::uint32_t before, std::uint32_t between) noexcept {
        polls_before_.store(before, std::memory_order_relaxed);
        mask_.store(between - 1, std::memory_order_relaxed);
    }
    // Several threads may poll: what one learns holds for all.
    std::atomic<std::uint32_t> polls_before_{polls_alone};
    std::atomic<std::uint32_t> mask_{polls_between_alone - 1};
    std::atomic<std::uint32_t> left_{0};  ///< doubts
    std::atomic<std::uint32_t> sure_{0};
};

}  // namespace via::mvich
