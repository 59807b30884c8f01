// SPDX-License-Identifier: BSD-3-Clause
// Blocking: spin for a while, because a wake-up costs more than most waits last, then sleep on the
// process's doorbell.
#pragma once

#include <sched.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/nap.hpp"
#include "na/doorbell.hpp"

namespace via::ua {

/// How long a thread spins before it sleeps: less and less while spinning does not help.
class AdaptiveSpin {
  public:
    [[nodiscard]] base::Nanoseconds span(base::Nanoseconds most) const noexcept {
        return std::max(most >> doublings_, std::min<base::Nanoseconds>(most, 2'000));
    }
    void helped() noexcept { doublings_ = 0; }
    void was_in_vain() noexcept { doublings_ = std::min(doublings_ + 1, 4); }

  private:
    int doublings_ = 0;
};

/// A sleeper looks around this often even if nobody rings: a hostile peer can clear marks.
inline constexpr base::Nanoseconds sleeper_sweep = 500'000'000;

/// On a simulated device, where a look lets time pass: as below, but it never sleeps. After the
/// spin `arm` says that the program sleeps now, which makes an arrival cost an interrupt.
template <class Look, class Arm>
bool wait_in_simulation(base::Nanoseconds spin, base::Deadline deadline, Look look, Arm arm) {
    const base::Deadline spin_end = base::Deadline::after(spin).earlier(deadline);
    constexpr int looks_before_rest = 64;
    bool armed = false;
    for (int looks = 0;; ++looks) {
        if (look()) return true;
        if (deadline.expired()) return false;
        if (!armed && spin_end.expired()) {
            arm();
            armed = true;
        }
        // Threads that are not simulated may have to wait for each other.
        if (base::thread_clock != nullptr) continue;
        if (looks < looks_before_rest) {
            sched_yield();
        } else {
            const timespec rest{0, 100'000};
            nanosleep(&rest, nullptr);
        }
    }
}

/// What a look has seen that did not find what is waited for.
struct Seen {
    bool moved = false;             ///< something else came
    base::Nanoseconds respite = 0;  ///< nothing did, and for so long nobody need look
};

/// Returns true as soon as look() does, false at the deadline. `arm` makes arrivals ring. While
/// seen() says that looks have moved something, if not what is waited for, it spins on: whoever
/// slept would leave the pieces of a long message to another thread, one wake-up each. It naps
/// where seen() lets it.
template <class Look, class Arm, class Yield, class See>
bool wait_until(na::Doorbell& doorbell, base::Nanoseconds spin, base::Deadline deadline, Look look,
                Arm arm, Yield should_yield, See seen) {
    thread_local AdaptiveSpin adaptive;
    if (look()) return true;
    if (deadline.expired()) return false;
    base::Deadline spin_end = base::Deadline::after(adaptive.span(spin)).earlier(deadline);
    for (;;) {
        bool moved = false;
        for (int i = 0; i < 32; ++i) {
            if (look()) {
                adaptive.helped();
                return true;
            }
            if (should_yield()) sched_yield();
            const Seen last = seen();
            if (last.respite != 0) base::nap(std::min(last.respite, deadline.remaining()));
            moved |= last.moved;
        }
        if (moved && !deadline.expired())
            spin_end = base::Deadline::after(spin).earlier(deadline);
        else if (spin_end.expired())
            break;
    }
    adaptive.was_in_vain();
    for (;;) {
        if (deadline.expired()) return look();
        const std::uint32_t ticket = doorbell.enter();
        arm();
        if (look()) {
            doorbell.leave();
            return true;
        }
        doorbell.sleep(ticket, base::Deadline::after(sleeper_sweep).earlier(deadline));
        doorbell.leave();
        if (look()) return true;
    }
}

/// The same for looks that do not tell what they have moved.
template <class Look, class Arm, class Yield>
bool wait_until(na::Doorbell& doorbell, base::Nanoseconds spin, base::Deadline deadline, Look look,
                Arm arm, Yield should_yield) {
    return wait_until(doorbell, spin, deadline, look, arm, should_yield, [] { return Seen{}; });
}

}  // namespace via::ua
