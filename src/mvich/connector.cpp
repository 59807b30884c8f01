// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/connector.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "mvich/device_parts.hpp"
#include "mvich/endpoint_address.hpp"
#include "mvich/endpoint_parts.hpp"

namespace via::mvich {
namespace {

/// Between two requests to an endpoint that is not there yet, or that has asked us itself.
constexpr auto between_requests = std::chrono::milliseconds(5);
/// One request takes no longer than this before others have their turn.
constexpr std::uint64_t turn_milliseconds = 2000;

/// Errors that time may heal: the endpoint is still being made, the link to it is cut for a moment.
[[nodiscard]] bool may_ask_again(base::Code code) noexcept {
    return code == base::Code::NoMatch || code == base::Code::NotFound ||
           code == base::Code::Rejected || code == base::Code::Timeout ||
           code == base::Code::OutOfResources || code == base::Code::NotReachable;
}

}  // namespace

Connector::~Connector() {
    {
        const std::lock_guard guard(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

base::Result<void> Connector::start() {
    auto thread = quiet_thread([this] { run(); });
    if (!thread) return std::move(thread).error();
    thread_ = std::move(thread).value();
    return {};
}

void Connector::request(EndpointParts& endpoint, const HostPort& key, const HostPort& to) {
    const std::lock_guard guard(mutex_);
    jobs_.push_back({&endpoint, key, to,
                     base::Deadline::after_milliseconds(device_.settings().connect_milliseconds)});
    changed_.notify_all();
}

void Connector::tidy() noexcept {
    {
        const std::lock_guard guard(mutex_);
        untidy_ = true;
    }
    changed_.notify_all();
}

void Connector::forget(EndpointParts& endpoint) {
    std::unique_lock lock(mutex_);
    // The job that has its turn may come back to the queue.
    for (;;) {
        std::erase_if(jobs_, [&](const Job& job) { return job.endpoint == &endpoint; });
        if (busy_with_ != &endpoint) return;
        changed_.wait(lock);
    }
}

void Connector::run() {
    std::unique_lock lock(mutex_);
    // Jobs that have had their turn since somebody waited.
    std::size_t in_a_row = 0;
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || untidy_ || !jobs_.empty(); });
        if (stopping_) return;
        if (std::exchange(untidy_, false)) {
            lock.unlock();
            device_.destroy_retired();
            lock.lock();
            continue;
        }
        const Job job = jobs_.front();
        jobs_.pop_front();
        busy_with_ = job.endpoint;
        lock.unlock();
        const Turn turn = take_turn(job);
        lock.lock();
        busy_with_ = nullptr;
        if (turn == Turn::Again) jobs_.push_back(job);
        changed_.notify_all();
        in_a_row = turn == Turn::Again ? in_a_row + 1 : 0;
        if (in_a_row < jobs_.size() || jobs_.empty()) continue;
        in_a_row = 0;
        changed_.wait_for(lock, between_requests, [&] { return stopping_; });
    }
}

Connector::Turn Connector::take_turn(const Job& job) {
    {
        const DeviceParts::SeldomGuard guard(device_);
        if (!job.endpoint->wants(job.key)) return Turn::Over;
        if (!job.endpoint->should_ask(job.key)) return Turn::Again;
    }
    const base::Deadline turn = base::Deadline::after_milliseconds(turn_milliseconds);
    const base::Deadline deadline = turn.earlier(job.deadline);
    base::Error error{base::Code::Timeout, {}};
    auto lane = std::make_unique<ViLane>(device_);
    bool connected = false;
    if (auto made = lane->create(); !made) {
        error = std::move(made).error();
    } else if (auto done = lane->vi().connect_request(
                   lane->handle(), requester_address(device_, job.endpoint->name()),
                   listener_address(device_, job.to), deadline);
               !done) {
        error = std::move(done).error();
    } else {
        connected = true;
    }
    // An endpoint of this host has its port as long as it lives.
    const bool nobody = !connected && error.code == base::Code::NoMatch &&
                        device_.is_here(job.to) && !port_is_reserved(job.to.port);
    const DeviceParts::SeldomGuard guard(device_);
    const bool wanted = job.endpoint->wants(job.key);
    if (connected && wanted) {
        job.endpoint->connected(job.key, std::move(lane));
        return Turn::Over;
    }
    lane->close();
    device_.retire(std::move(lane));
    if (connected || !wanted) return Turn::Over;
    if (!nobody && may_ask_again(error.code) && !job.deadline.expired()) return Turn::Again;
    job.endpoint->not_connected(job.key, error);
    return Turn::Over;
}

}  // namespace via::mvich
