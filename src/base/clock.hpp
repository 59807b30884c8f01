// SPDX-License-Identifier: BSD-3-Clause
// Monotonic time and deadlines. Every wait in Viaduct takes a Deadline.
#pragma once

#include <time.h>

#include <cstdint>
#include <limits>

namespace via::base {

using Nanoseconds = std::int64_t;

/// The clock of a thread that lives in simulated time.
class ThreadClock {
  public:
    [[nodiscard]] virtual Nanoseconds now() const noexcept = 0;

  protected:
    ~ThreadClock() = default;
};
/// Null: the thread lives in real time.
inline constinit thread_local const ThreadClock* thread_clock = nullptr;

/// The machine's own time, whoever asks.
[[nodiscard]] inline Nanoseconds machine_now() noexcept {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

[[nodiscard]] inline Nanoseconds monotonic_now() noexcept {
    if (thread_clock != nullptr) [[unlikely]]
        return thread_clock->now();
    return machine_now();
}

/// While it lives, its thread is in real time: it waits for something outside the simulation.
class RealTime {
  public:
    RealTime() noexcept : clock_(thread_clock) { thread_clock = nullptr; }
    RealTime(const RealTime&) = delete;
    RealTime& operator=(const RealTime&) = delete;
    ~RealTime() { thread_clock = clock_; }

  private:
    const ThreadClock* clock_;
};

/// Wall clock, only for showing to people.
[[nodiscard]] inline Nanoseconds wall_now() noexcept {
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

class Deadline {
  public:
    [[nodiscard]] static Deadline never() noexcept {
        return Deadline(std::numeric_limits<Nanoseconds>::max());
    }
    [[nodiscard]] static Deadline after(Nanoseconds span) noexcept {
        const Nanoseconds now = monotonic_now();
        if (span > std::numeric_limits<Nanoseconds>::max() - now) return never();
        return Deadline(now + span);
    }
    [[nodiscard]] static Deadline after_milliseconds(std::uint64_t milliseconds) noexcept {
        if (milliseconds > 1'000'000'000'000ULL) return never();
        return after(static_cast<Nanoseconds>(milliseconds) * 1'000'000);
    }
    [[nodiscard]] static Deadline at(Nanoseconds moment) noexcept { return Deadline(moment); }

    [[nodiscard]] bool is_never() const noexcept {
        return moment_ == std::numeric_limits<Nanoseconds>::max();
    }
    [[nodiscard]] Nanoseconds moment() const noexcept { return moment_; }
    [[nodiscard]] Nanoseconds remaining(Nanoseconds now = monotonic_now()) const noexcept {
        if (is_never()) return moment_;
        return moment_ > now ? moment_ - now : 0;
    }
    [[nodiscard]] bool expired(Nanoseconds now = monotonic_now()) const noexcept {
        return !is_never() && moment_ <= now;
    }
    [[nodiscard]] Deadline earlier(Deadline other) const noexcept {
        return moment_ <= other.moment_ ? *this : other;
    }
    /// For poll(2) and epoll: -1 is for ever, rounded up so that a wait never ends early.
    [[nodiscard]] int poll_milliseconds() const noexcept {
        if (is_never()) return -1;
        const Nanoseconds milliseconds = (remaining() + 999'999) / 1'000'000;
        return milliseconds > std::numeric_limits<int>::max() ? std::numeric_limits<int>::max()
                                                              : static_cast<int>(milliseconds);
    }

  private:
    explicit Deadline(Nanoseconds moment) noexcept : moment_(moment) {}
    Nanoseconds moment_;
};

}  // namespace via::base
