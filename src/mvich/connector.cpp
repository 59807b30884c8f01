// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/connector.hpp"

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "mvich/device_parts.hpp"
#include "mvich/endpoint_address.hpp"
#include "mvich/endpoint_parts.hpp"

namespace via::mvich {
namespace {

/// Between two requests to an endpoint that is not there yet, or that has asked us itself.
constexpr auto between_requests = std::chrono::milliseconds(5);

/// Errors that time may heal.
[[nodiscard]] bool may_ask_again(base::Code code) noexcept {
    return code == base::Code::NoMatch || code == base::Code::NotFound ||
           code == base::Code::Rejected;
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

void Connector::request(EndpointParts& endpoint, const HostPort& to) {
    const std::lock_guard guard(mutex_);
    jobs_.push_back({&endpoint, to});
    if (!thread_.joinable())
        thread_ = quiet_thread([this] { run(); });
    changed_.notify_all();
}

void Connector::forget(EndpointParts& endpoint) {
    std::unique_lock lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) { return job.endpoint == &endpoint; });
    changed_.wait(lock, [&] { return busy_with_ != &endpoint; });
}

void Connector::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
        if (stopping_) return;
        const Job job = jobs_.front();
        jobs_.pop_front();
        busy_with_ = job.endpoint;
        lock.unlock();
        connect(job);
        device_.destroy_retired();
        lock.lock();
        busy_with_ = nullptr;
        changed_.notify_all();
    }
}

void Connector::connect(const Job& job) {
    const base::Deadline deadline =
        base::Deadline::after_milliseconds(device_.settings().connect_milliseconds);
    base::Error error{base::Code::Timeout, {}};
    for (;;) {
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
        {
            const base::BiasedGuard guard(device_.lock());
            if (connected && job.endpoint->wants(job.to)) {
                job.endpoint->connected(job.to, std::move(lane));
                return;
            }
            lane->close();
            device_.retire(std::move(lane));
            if (connected || !job.endpoint->wants(job.to)) return;
            if (!may_ask_again(error.code) || deadline.expired()) {
                job.endpoint->not_connected(job.to, error);
                return;
            }
        }
        device_.destroy_retired();
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, between_requests, [&] { return stopping_; })) return;
    }
}

}  // namespace via::mvich
