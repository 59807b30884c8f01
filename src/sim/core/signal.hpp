// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <coroutine>

#include "sim/core/simulation.hpp"
#include "sim/core/wait_list.hpp"

namespace via::sim {

/// Something that processes wait for. Raised and never cleared it is a one-shot event; raised and
/// cleared, a state; pulsed, an occurrence that only those see who wait for it. A process that is
/// woken is woken for good, even if the signal is cleared before it runs; all run in the order in
/// which they came.
class Signal {
  public:
    explicit Signal(Simulation& simulation) noexcept : simulation_(simulation) {}
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;

    [[nodiscard]] bool is_raised() const noexcept { return raised_; }
    void raise() {
        raised_ = true;
        pulse();
    }
    void clear() noexcept { raised_ = false; }
    /// Wakes those who are waiting.
    void pulse();

    class [[nodiscard]] Wait : public Waiter {
      public:
        Wait(Signal& signal, Time deadline) noexcept : signal_(signal), deadline_(deadline) {}
        [[nodiscard]] bool await_ready() noexcept {
            expired_ = !signal_.raised_ && deadline_ <= signal_.simulation_.now();
            return signal_.raised_ || expired_;
        }
        void await_suspend(std::coroutine_handle<> process);
        bool await_resume() const noexcept { return !expired_; }

      private:
        friend class Signal;
        static void expire(void* wait);

        Signal& signal_;
        Time deadline_;
        Simulation::Ticket timer_ = 0;
        bool expired_ = false;
    };

    /// True: raised or pulsed; false: the deadline, a moment, came first. A raised signal lets
    /// through at once, without an event.
    [[nodiscard]] Wait wait(Time deadline = forever) noexcept { return {*this, deadline}; }

  private:
    Simulation& simulation_;
    WaitList<Wait> waiting_;
    bool raised_ = false;
};

}  // namespace via::sim
