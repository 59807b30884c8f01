// SPDX-License-Identifier: BSD-3-Clause
// Makes connections that were asked for, in a thread that sleeps otherwise: asking takes a word with
// the kernel agents of both hosts, and a program that sends must not wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "mvich/address_book.hpp"

namespace via::mvich {

class DeviceParts;
class EndpointParts;

class Connector {
  public:
    explicit Connector(DeviceParts& device) : device_(device) {}
    ~Connector();
    /// Any lock: the endpoint hears connected() or not_connected().
    void request(EndpointParts& endpoint, const HostPort& to);
    /// Nothing of this endpoint is under way any more when this returns.
    void forget(EndpointParts& endpoint);

  private:
    struct Job {
        EndpointParts* endpoint;
        HostPort to;
    };
    void run();
    void connect(const Job& job);

    DeviceParts& device_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    EndpointParts* busy_with_ = nullptr;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace via::mvich
