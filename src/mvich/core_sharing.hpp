// SPDX-License-Identifier: BSD-3-Clause
// When a thread that polls in vain gives its core away: late while nobody else wants the core,
// since the wait is likely short; at once while others do, since they may be whom it waits for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "base/clock.hpp"

namespace via::mvich {

class CoreSharing {
  public:
    static constexpr std::uint32_t polls_alone = 1024;
    static constexpr std::uint32_t polls_between_alone = 32;
    /// A core that nobody wants is back sooner than this; two changes of the process take longer.
    /// Where system calls are slow, it is more (see alone_it_took).
    static constexpr base::Nanoseconds least_of_others = 1000;
    /// So often in a row nobody wants it before it counts as one's own: the others may be asleep or
    /// on another core for a moment.
    static constexpr std::uint32_t doubts = 16;
    /// So often it is given away without looking at the clock after others had it.
    static constexpr std::uint32_t times_unmeasured = 31;

    /// After so many empty polls in a row: is it time to give the core away?
    [[nodiscard]] bool due(std::uint32_t empty_polls) const noexcept {
        return doubts_left_.load(std::memory_order_relaxed) != 0 ||
               (empty_polls >= polls_alone && empty_polls % polls_between_alone == 0);
    }
    /// Do others want the core?
    [[nodiscard]] bool is_shared() const noexcept {
        return doubts_left_.load(std::memory_order_relaxed) != 0;
    }
    /// Others want the core, as was seen a few times ago: how long it is away need not be measured.
    [[nodiscard]] bool surely_shared() noexcept { return count_down(unmeasured_left_); }
    /// It was back after `away`: so late that others may have had it?
    [[nodiscard]] bool is_late(base::Nanoseconds away) const noexcept {
        return away > late_.load(std::memory_order_relaxed);
    }
    void came_back(bool others_had_it) noexcept {
        if (!others_had_it) {
            count_down(doubts_left_);
            return;
        }
        doubts_left_.store(doubts, std::memory_order_relaxed);
        unmeasured_left_.store(times_unmeasured, std::memory_order_relaxed);
    }
    /// The kernel says that nobody had it, though it was back only after `away`. If others have it,
    /// their own system call to give it back takes as long again.
    void alone_it_took(base::Nanoseconds away) noexcept {
        if (away >= quickest_alone_.load(std::memory_order_relaxed)) return;
        quickest_alone_.store(away, std::memory_order_relaxed);
        late_.store(std::max(2 * away, least_of_others), std::memory_order_relaxed);
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
    std::atomic<base::Nanoseconds> late_{least_of_others};
    std::atomic<base::Nanoseconds> quickest_alone_{std::numeric_limits<base::Nanoseconds>::max()};
};

/// How long a thread on a shared core polls for one who runs on another core before it gives its
/// own away. Where both cores change between two ranks that go in step it pays nearly always, where
/// many ranks share them hardly ever: what came of it last decides. Under the device's lock.
class Hope {
  public:
    /// Some microseconds: what a change of process and back takes.
    static constexpr std::uint32_t most_polls = 512;
    static constexpr std::uint32_t polls_at_once = 64;  ///< before a look at everything else
    static constexpr std::uint32_t most_trust = 64;
    /// Without trust it is tried only now and then.
    static constexpr std::uint32_t turns_without = 64;

    /// Is it to be tried this time?
    [[nodiscard]] bool is_due() noexcept { return trust_ != 0 || ++turns_ % turns_without == 0; }
    void fulfilled() noexcept { trust_ = std::min(trust_ + 1, most_trust); }
    void disappointed() noexcept { trust_ -= std::min(trust_, 1U); }

  private:
    std::uint32_t trust_ = most_trust;
    std::uint32_t turns_ = 0;
};

}  // namespace via::mvich
