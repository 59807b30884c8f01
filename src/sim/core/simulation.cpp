// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/simulation.hpp"

#include <stdexcept>
#include <string>

namespace via::sim {

Simulation::~Simulation() {
    ending_ = true;
    processes_.destroy_all();
}

bool Simulation::step() {
    if (queue_.empty()) return false;
    const Action action = queue_.pop();
    ++events_;
    action.function(action.context);
    processes_.rethrow_failure();
    return true;
}

base::Result<void> Simulation::run() {
    while (!queue_.empty()) {
        if (events_ >= event_limit_) return too_many_events();
        step();
    }
    return {};
}

base::Result<void> Simulation::run_until(Time moment) {
    if (moment < now()) refuse_moment(moment);
    while (!queue_.empty() && queue_.next_time() <= moment) {
        if (events_ >= event_limit_) return too_many_events();
        step();
    }
    queue_.advance(moment);
    return {};
}

base::Error Simulation::too_many_events() const {
    return {base::Code::OutOfResources,
            "the simulation reached its limit of " + std::to_string(event_limit_) + " events at " +
                std::to_string(now()) + " ps (processes left: " + std::to_string(processes()) +
                "): if none of them runs in circles, raise the limit"};
}

void Simulation::refuse_delay(Time duration) const {
    throw std::invalid_argument("a delay of " + std::to_string(duration) + " ps at " +
                                std::to_string(now()) + " ps: not from 0 to the end of time");
}

void Simulation::refuse_moment(Time moment) const {
    throw std::invalid_argument("waiting at " + std::to_string(now()) + " ps for " +
                                std::to_string(moment) + " ps: that is over");
}

}  // namespace via::sim
