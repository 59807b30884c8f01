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
    /// Giving a core away that nobody wants takes a quarter of a microsecond; two changes of the
    /// process take more than this.
    static constexpr base::Nanoseconds others_had_it = 1000;
    /// So often in a row nobody wants it before it counts as one's own: the others may be asleep or
    /// on another core for a moment.
    static constexpr std::uint32_t doubts = 16;
    /// So often it is given away without looking at the clock after others had it.
    static constexpr std::uint32_t times_unmeasured = 15;

    /// After so many empty polls in a row: is it time to give the core away?
    [[nodiscard]] bool due(std::uint32_t empty_polls) const noexcept {
        return doubts_left_.load(std::memory_order_relaxed) != 0 ||
               (empty_polls >= polls_alone && empty_polls % polls_between_alone == 0);
    }
    /// Others want the core, as was seen a few times ago: how long it is away need not be measured.
    [[nodiscard]] bool surely_shared() noexcept { return count_down(unmeasured_left_); }
    /// It was given away, and was back after `away`.
    void came_back(base::Nanoseconds away) noexcept {
        if (away <= others_had_it) {
            count_down(doubts_left_);
            return;
        }
        doubts_left_.store(doubts, std::memory_order_relaxed);
        unmeasured_left_.store(times_unmeasured, std::memory_order_relaxed);
    }

  private:
    // Several threads may poll: what one learns holds for all, and a count that is lost harms none.
    using Count = std::atomic<std::uint32_t>;
    static bool count_down(Count& count) noexcept {
        const std::uint32_t left = count.load(std::memory_order_relaxed);
        if (left != 0) count.store(left - 1, std::memory_order_relaxed);
        return left != 0;
    }
    Count doubts_left_{0};  ///< 0: the core is one's own
    Count unmeasured_left_{0};
};

}  // namespace via::mvich
