// SPDX-License-Identifier: BSD-3-Clause
// A discrete-event simulation: processes are coroutines, time is what the next event says.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "sim/core/event_queue.hpp"
#include "sim/core/process_list.hpp"
#include "sim/core/task.hpp"
#include "sim/core/time.hpp"
#include "sim/core/trace.hpp"

namespace via::sim {

/// One thread runs it; as many as one likes live side by side, and none knows of another. Nothing
/// depends on chance: events happen in the order of their times, those of one time in the order in
/// which they were asked for. A process that is woken (by a Resource, a Signal, a Mailbox) or
/// spawned runs at that same time, after everything that was asked for before.
///
/// Resources and the like go before their simulation, once it is no longer run: the processes that
/// still wait are destroyed with the simulation, and what they hold then is not given back.
class Simulation {
  public:
    using Ticket = EventQueue::Ticket;
    static constexpr std::uint64_t default_event_limit = 1'000'000'000;

    explicit Simulation(std::uint64_t event_limit = default_event_limit) noexcept
        : event_limit_(event_limit) {}
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;
    ~Simulation();

    [[nodiscard]] Time now() const noexcept { return queue_.now(); }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }  ///< that happened
    [[nodiscard]] std::size_t processes() const noexcept { return processes_.size(); }

    void spawn(Task<> process) { wake(processes_.add(std::move(process))); }

    class [[nodiscard]] Delay {
      public:
        Delay(Simulation& simulation, Time until) noexcept
            : simulation_(simulation), until_(until) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> process) const {
            simulation_.schedule(until_, {resume, process.address()});
        }
        void await_resume() const noexcept {}

      private:
        Simulation& simulation_;
        Time until_;
    };

    /// A delay of 0 lets everything else that is to happen now happen first. A negative one throws
    /// std::invalid_argument, as does an end of the wait in the past or after the end of time.
    [[nodiscard]] Delay delay(Time duration) { return {*this, after(duration)}; }
    [[nodiscard]] Delay until(Time moment) {
        if (moment < now()) refuse_moment(moment);
        return {*this, moment};
    }

    /// Until nothing is left to happen, or up to and including a moment, which it is then. An error
    /// if that takes more events, since the beginning, than the limit. Whatever a process throws
    /// and nobody catches comes out of here; the simulation can go on.
    [[nodiscard]] base::Result<void> run();
    [[nodiscard]] base::Result<void> run_until(Time moment);
    /// One event; false: there is none.
    bool step();
    void set_event_limit(std::uint64_t event_limit) noexcept { event_limit_ = event_limit; }

    /// To whom spans are told; nullptr: nobody.
    void attach(Trace* trace) noexcept { trace_ = trace; }
    /// A span that ends now.
    void record(Time begin, std::string_view lane, std::string_view label,
                std::uint64_t message = 0) {
        if (trace_ != nullptr) trace_->record({begin, now(), lane, label, message});
    }

    // For those who write further ways to wait.

    void wake(std::coroutine_handle<> process) { queue_.push_now({resume, process.address()}); }
    /// An event that needs no coroutine.
    Ticket call_at(Time moment, void (*function)(void* context), void* context) {
        return schedule(moment, {function, context});
    }
    /// Of an event of a later time that has not happened.
    bool cancel(Ticket ticket) noexcept { return queue_.cancel(ticket); }
    /// True while the processes are destroyed: what they refer to may be gone already.
    [[nodiscard]] bool is_ending() const noexcept { return ending_; }

  private:
    static void resume(void* coroutine) {
        std::coroutine_handle<>::from_address(coroutine).resume();
    }
    [[nodiscard]] Time after(Time duration) const {
        if (duration < 0 || duration > forever - now()) refuse_delay(duration);
        return now() + duration;
    }
    Ticket schedule(Time moment, Action action) {
        if (moment > now()) return queue_.push_later(moment, action);
        if (moment < now()) refuse_moment(moment);
        queue_.push_now(action);
        return 0;
    }
    [[noreturn]] void refuse_delay(Time duration) const;
    [[noreturn]] void refuse_moment(Time moment) const;
    [[nodiscard]] base::Error too_many_events() const;

    EventQueue queue_;
    ProcessList processes_;
    std::uint64_t events_ = 0;
    std::uint64_t event_limit_;
    Trace* trace_ = nullptr;
    bool ending_ = false;
};

}  // namespace via::sim
