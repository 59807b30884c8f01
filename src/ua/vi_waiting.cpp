// SPDX-License-Identifier: BSD-3-Clause
// Waiting for a VI's completions: VipSendWait and VipRecvWait.
#include <utility>

#include "ua/hot_path.hpp"
#include "ua/nic.hpp"
#include "ua/virtual_interface.hpp"
#include "ua/wait.hpp"

namespace via::ua {

/// More comes and this thread polls: no arrival needs to wake another, as it would since the last
/// sleep. Not done at the end of that sleep: whoever sleeps for each message pays for arming once.
void VirtualInterface::stay_awake(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected) || sleepers_ != 0 || !std::exchange(armed_for_sleeper_, false)) return;
    if (!service_owned_.load(std::memory_order_relaxed)) carrier_->arm(na::Wakes::Nobody);
}

/// Pieces of a message come one by one: how long they may be left to gather.
base::Nanoseconds VirtualInterface::respite(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    return is(expected) && state_ == ViState::Connected ? carrier_->respite() : 0;
}

DoneOutcome VirtualInterface::wait(std::uint64_t expected, Queue which, base::Deadline deadline,
                                   VIP_DESCRIPTOR*& descriptor) {
    DoneOutcome outcome = DoneOutcome::NotDone;
    na::Doorbell& doorbell = *doorbell_;
    Process& process = nic_->process();
    const auto look = [&] {
        outcome = done(expected, which, descriptor);
        return outcome != DoneOutcome::NotDone;
    };
    if (nic_->device().attributes().simulated) {
        wait_in_simulation(process.spin(), deadline, look, [&] {
            const base::BiasedGuard guard(lock_);
            if (is(expected)) carrier_->arm(na::Wakes::Sleeper);
        });
        return outcome;
    }
    bool slept = false;
    bool more_comes = false;
    std::uint64_t moves_seen = moves_.load(std::memory_order_relaxed);
    wait_until(
        doorbell, process.spin(), deadline, look,
        [&] {
            const base::BiasedGuard guard(lock_);
            if (!is(expected)) return;
            carrier_->arm(na::Wakes::Sleeper);
            armed_for_sleeper_ = true;
            // What came may have left something to do that no arrival tells of.
            if (carrier_->unfinished()) process.look_after();
            if (std::exchange(slept, true)) return;
            ++sleepers_;
            queues_->counters->sleeps.add();
        },
        [] { return false; },  // done() gives way itself
        [&] {
            const std::uint64_t moves = moves_.load(std::memory_order_relaxed);
            if (std::exchange(moves_seen, moves) != moves) {
                stay_awake(expected);
                more_comes = true;
                return Seen{.moved = true};
            }
            const bool may_rest = more_comes && which == Queue::Receive;
            return may_rest ? Seen{.respite = respite(expected)} : Seen{};
        });
    if (slept) {
        {
            const base::BiasedGuard guard(lock_);
            if (sleepers_ != 0) --sleepers_;
        }
        // Now the service thread has to watch again whether the program polls.
        process.look_after();
    }
    return outcome;
}

}  // namespace via::ua
