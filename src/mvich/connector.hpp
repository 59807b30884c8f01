// SPDX-License-Identifier: BSD-3-Clause
// Makes connections that were asked for, in a thread that sleeps otherwise: asking takes a word
// with the kernel agents of both hosts, and a program that sends must not wait for it. Also
// destroys what is left of connections that are over, which whoever notices their end can not
// always do.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "mvich/address_book.hpp"

namespace via::mvich {

class DeviceParts;
class EndpointParts;

class Connector {
  public:
    explicit Connector(DeviceParts& device) : device_(device) {}
    ~Connector();
    [[nodiscard]] base::Result<void> start();
    /// Any lock: the endpoint hears connected() or not_connected() with this key.
    void request(EndpointParts& endpoint, const HostPort& key, const HostPort& to);
    /// The device has retired lanes.
    void tidy() noexcept;
    /// Nothing of this endpoint is under way any more when this returns.
    void forget(EndpointParts& endpoint);

  private:
    struct Job {
        EndpointParts* endpoint;
        HostPort key;
        HostPort to;
        base::Deadline deadline;
    };
    enum class Turn : std::uint8_t { Over, Again };
    void run();
    /// Asks once.
    [[nodiscard]] Turn take_turn(const Job& job);

    DeviceParts& device_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    EndpointParts* busy_with_ = nullptr;
    bool untidy_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace via::mvich
