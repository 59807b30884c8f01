// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/resource.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace via::sim {

Hold::Hold(Resource& resource, std::uint32_t units, std::string_view label,
           std::uint64_t message) noexcept
    : simulation_(&resource.simulation_),
      resource_(&resource),
      label_(label),
      message_(message),
      begin_(simulation_->now()),
      units_(units) {}

Hold::Hold(Hold&& other) noexcept
    : simulation_(other.simulation_),
      resource_(std::exchange(other.resource_, nullptr)),
      label_(other.label_),
      message_(other.message_),
      begin_(other.begin_),
      units_(other.units_) {}

Hold& Hold::operator=(Hold&& other) noexcept {
    if (this == &other) return *this;
    release();
    simulation_ = other.simulation_;
    resource_ = std::exchange(other.resource_, nullptr);
    label_ = other.label_;
    message_ = other.message_;
    begin_ = other.begin_;
    units_ = other.units_;
    return *this;
}

void Hold::release() noexcept {
    Resource* const resource = std::exchange(resource_, nullptr);
    if (resource == nullptr || simulation_->is_ending()) return;
    simulation_->record(begin_, resource->name(), label_, message_);
    resource->give_back(units_);
}

bool Acquisition::await_ready() {
    return resource_.try_take(*this);
}

void Acquisition::await_suspend(std::coroutine_handle<> waiting) noexcept {
    resource_.enqueue(*this, waiting);
}

namespace {

// By value, and no member: a requester is often gone before its task begins.
Task<> use_for(Simulation& simulation, Requester requester, Time duration, std::string_view label,
               std::uint64_t message) {
    const Hold hold = co_await requester.acquire(label, message);
    co_await simulation.delay(duration);
}

}  // namespace

Task<> Requester::use(Time duration, std::string_view label, std::uint64_t message) const {
    return use_for(resource_->simulation_, *this, duration, label, message);
}

const std::string& Requester::name() const noexcept {
    return resource_->queues_[index_].name;
}

const RequesterStatistics& Requester::statistics() const noexcept {
    return resource_->queues_[index_].statistics;
}

Resource::Resource(Simulation& simulation, std::string name, std::uint32_t capacity)
    : simulation_(simulation),
      capacity_(capacity),
      free_(capacity),
      observed_since_(simulation.now()),
      accounted_until_(simulation.now()) {
    if (capacity == 0) throw std::invalid_argument("resource '" + name + "' has no units");
    queues_.push_back({std::move(name), {}, {}});
}

Requester Resource::add_requester(std::string name) {
    queues_.push_back({std::move(name), {}, {}});
    return {*this, queues_.size() - 1};
}

bool Resource::try_take(const Acquisition& request) {
    if (request.units_ == 0 || request.units_ > capacity_) {
        throw std::invalid_argument(std::to_string(request.units_) + " units of '" + name() +
                                    "', which has " + std::to_string(capacity_) +
                                    ": ask for at least one and no more than there are");
    }
    if (waiting_ > 0 || request.units_ > free_) return false;
    take(request);
    return true;
}

void Resource::enqueue(Acquisition& request, std::coroutine_handle<> process) noexcept {
    Queue& queue = queues_[request.requester_];
    request.since_ = simulation_.now();
    queue.waiting.push(request, process);
    ++queue.statistics.waits;
    longest_queue_ = std::max(longest_queue_, ++waiting_);
}

void Resource::give_back(std::uint32_t units) {
    account();
    free_ += units;
    if (waiting_ > 0) serve_waiting();
}

void Resource::serve_waiting() {
    do {
        while (queues_[turn_].waiting.empty())
            turn_ = turn_ + 1 < queues_.size() ? turn_ + 1 : 0;
        Queue& queue = queues_[turn_];
        Acquisition& request = queue.waiting.front();
        if (request.units_ > free_) return;
        queue.waiting.pop();
        --waiting_;
        take(request);
        const Time waited = simulation_.now() - request.since_;
        queue.statistics.waited += waited;
        queue.statistics.longest_wait = std::max(queue.statistics.longest_wait, waited);
        simulation_.wake(request.process);
    } while (waiting_ > 0);
}

void Resource::take(const Acquisition& request) noexcept {
    account();
    free_ -= request.units_;
    ++queues_[request.requester_].statistics.acquisitions;
    turn_ = request.requester_ + 1 < queues_.size() ? request.requester_ + 1 : 0;
}

void Resource::account() noexcept {
    const Time time = simulation_.now() - accounted_until_;
    const std::uint32_t held = capacity_ - free_;
    if (held > 0) busy_ += time;
    held_ += Wide{held} * static_cast<std::uint64_t>(time);
    accounted_until_ = simulation_.now();
}

ResourceStatistics Resource::statistics() noexcept {
    account();
    ResourceStatistics all;
    for (const Queue& queue : queues_) {
        all.acquisitions += queue.statistics.acquisitions;
        all.waits += queue.statistics.waits;
        all.waited += queue.statistics.waited;
        all.longest_wait = std::max(all.longest_wait, queue.statistics.longest_wait);
    }
    all.observed = simulation_.now() - observed_since_;
    all.busy = busy_;
    if (all.observed > 0) {
        all.utilisation = static_cast<double>(held_) / static_cast<double>(capacity_) /
                          static_cast<double>(all.observed);
    }
    all.longest_queue = longest_queue_;
    return all;
}

void Resource::reset_statistics() noexcept {
    for (Queue& queue : queues_)
        queue.statistics = {};
    observed_since_ = accounted_until_ = simulation_.now();
    busy_ = 0;
    held_ = 0;
    longest_queue_ = waiting_;
}

}  // namespace via::sim
