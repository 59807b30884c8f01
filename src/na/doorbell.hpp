// SPDX-License-Identifier: BSD-3-Clause
// The doorbell of a process: a page that its peers map, on which they mark the endpoints that have
// arrivals and wake whoever sleeps. Peers ring only endpoints that asked for it (Endpoint::arm), so
// a process that polls costs its senders nothing.
//
// Any peer can write the page, so nothing read from it is trusted: a wrong bit is a needless look,
// a cleared one is found by the sweep that every sleeper makes now and then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "base/fd.hpp"
#include "base/memory_file.hpp"
#include "base/result.hpp"

namespace via::na {

inline constexpr std::uint32_t doorbell_endpoints = 4096;  ///< marks; more endpoints share them

struct DoorbellPage {
    alignas(base::cache_line) std::atomic<std::uint32_t> epoch;  ///< futex word
    std::atomic<std::uint32_t> sleepers;    ///< threads of the owner in sleep()
    std::atomic<std::uint32_t> rmmt_epoch;  ///< of the owner's RMMT
    alignas(base::cache_line) std::atomic<std::uint64_t> summary;  ///< one bit per word of marks
    alignas(base::cache_line) std::array<std::atomic<std::uint64_t>, doorbell_endpoints / 64> marks;
};

/// Whom an arrival shall wake: a bit set, as it lies in the channel's attention word.
enum class Wakes : std::uint32_t {
    Nobody = 0,
    Sleeper = 1,  ///< threads of the program that sleep in a Wait call, or will poll the marks
    Service = 2,  ///< the service thread, because nobody polls
};

/// The peer's side: marks `index` and wakes whoever is asked for.
void ring_doorbell(DoorbellPage& page, int event, std::uint32_t index, Wakes wakes) noexcept;
/// Wakes the service thread in any case: for news that concern no armed endpoint.
void ring_service(int event) noexcept;

/// Makes everything that other registered processes did before visible here, and the other way
/// round: the sleeper's half of "mark me, look again, sleep" costs a system call so that the
/// sender's half costs nothing. False: the kernel has no membarrier; senders must then use fences.
[[nodiscard]] bool enable_asymmetric_barrier() noexcept;
void asymmetric_barrier() noexcept;

class Doorbell {
  public:
    [[nodiscard]] static base::Result<Doorbell> create();

    [[nodiscard]] DoorbellPage& page() noexcept {
        return *reinterpret_cast<DoorbellPage*>(mapping_.data());
    }
    [[nodiscard]] int memory_file() const noexcept { return memory_.get(); }
    [[nodiscard]] int event() const noexcept { return event_.get(); }

    /// Between enter() and leave() every ring wakes sleep(). enter, arm, look again, sleep, leave.
    [[nodiscard]] std::uint32_t enter() noexcept;
    void sleep(std::uint32_t ticket, base::Deadline deadline) noexcept;
    void leave() noexcept;
    /// For news from inside the process (another thread completed something).
    void wake_local() noexcept;
    /// Sleepers of this process, for callers that wake only if somebody sleeps.
    [[nodiscard]] bool anyone_sleeps() noexcept {
        return page().sleepers.load(std::memory_order_relaxed) != 0;
    }

  private:
    base::UniqueFd memory_;
    base::UniqueFd event_;
    base::Mapping mapping_;
};

}  // namespace via::na
