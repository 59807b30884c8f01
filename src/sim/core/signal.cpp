// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/signal.hpp"

namespace via::sim {

void Signal::pulse() {
    while (!waiting_.empty()) {
        Wait& wait = waiting_.pop();
        if (wait.deadline_ != forever) simulation_.cancel(wait.timer_);
        simulation_.wake(wait.process);
    }
}

void Signal::Wait::await_suspend(std::coroutine_handle<> waiting) {
    signal_.waiting_.push(*this, waiting);
    if (deadline_ != forever) timer_ = signal_.simulation_.call_at(deadline_, expire, this);
}

void Signal::Wait::expire(void* wait) {
    Wait& expired = *static_cast<Wait*>(wait);
    expired.signal_.waiting_.remove(expired);
    expired.expired_ = true;
    expired.process.resume();
}

}  // namespace via::sim
