// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/via_experiment.hpp"

#include <algorithm>
#include <utility>

namespace via::sim {
namespace {

/// The programs that run on the two hosts.
class TwoPrograms {
  public:
    explicit TwoPrograms(const ViaSystem& system)
        : cluster_(system, 2), a_(cluster_.host(0)), b_(cluster_.host(1)) {}

    [[nodiscard]] base::Result<Time> window(std::uint64_t bytes, std::uint64_t messages,
                                            Trace* trace) {
        return run(send_many(a_, b_, bytes, messages, 0), receive_many(messages), trace);
    }
    [[nodiscard]] base::Result<Time> pingpong(std::uint64_t bytes, std::uint64_t rounds,
                                              Trace* trace) {
        return run(ping(bytes, rounds), pong(bytes, rounds), trace);
    }

    /// Two streams at once; MB/s of each while both were there.
    [[nodiscard]] base::Result<std::array<double, 2>> flows(Flows flows, std::uint64_t bytes,
                                                            std::uint64_t messages) {
        const bool same = flows == Flows::Same;
        simulation_.spawn(send_many(a_, b_, bytes, messages, 0));
        simulation_.spawn(send_many(same ? a_ : b_, same ? b_ : a_, bytes, messages, 1));
        simulation_.spawn(count_arrivals(b_));
        simulation_.spawn(count_arrivals(a_));
        // Until one of them is through: from then on the other would have everything.
        while (std::max(arrivals_[0], arrivals_[1]) < messages && simulation_.step()) {
        }
        const double time = in_microseconds(simulation_.now());
        return std::array{static_cast<double>(arrivals_[0] * bytes) / time,
                          static_cast<double>(arrivals_[1] * bytes) / time};
    }

  private:
    using Host = Cluster::Host;

    [[nodiscard]] base::Result<Time> run(Task<> first, Task<> second, Trace* trace) {
        simulation_.attach(trace);
        simulation_.spawn(std::move(first));
        simulation_.spawn(std::move(second));
        if (auto done = simulation_.run(); !done) return std::move(done).error();
        return ended_;
    }

    Task<> post(Host& host, const Host& other, std::uint64_t bytes, std::uint32_t flow = 0) {
        Message message;
        message.bytes = bytes;
        message.flow = flow;
        message.to = other.number;
        co_await cluster_.post(host, 0, std::move(message));
    }
    Task<> receive(Host& host) {
        [[maybe_unused]] const Message message = co_await host.nics[0]->received().take();
        co_await simulation_.delay(cluster_.poll_time());
    }

    Task<> send_many(Host& host, const Host& other, std::uint64_t bytes, std::uint64_t messages,
                     std::uint32_t flow) {
        for (std::uint64_t i = 0; i < messages; ++i)
            co_await post(host, other, bytes, flow);
    }
    Task<> count_arrivals(Host& host) {
        for (;;) {
            const Message message = co_await host.nics[0]->received().take();
            ++arrivals_[message.flow];
        }
    }
    Task<> receive_many(std::uint64_t messages) {
        for (std::uint64_t i = 0; i < messages; ++i)
            co_await receive(b_);
        ended_ = simulation_.now();
    }
    Task<> ping(std::uint64_t bytes, std::uint64_t rounds) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            co_await post(a_, b_, bytes);
            co_await receive(a_);
        }
        ended_ = simulation_.now();
    }
    Task<> pong(std::uint64_t bytes, std::uint64_t rounds) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            co_await receive(b_);
            co_await post(b_, a_, bytes);
        }
    }

    Cluster cluster_;
    Simulation& simulation_ = cluster_.simulation();
    Host& a_;
    Host& b_;
    Time ended_ = 0;
    std::array<std::uint64_t, 2> arrivals_{};
};

}  // namespace

base::Result<double> simulate_window(const ViaSystem& system, std::uint64_t bytes,
                                     std::uint64_t messages, Trace* trace) {
    auto time = TwoPrograms(system).window(bytes, messages, trace);
    if (!time) return std::move(time).error();
    return static_cast<double>(bytes * messages) / in_microseconds(time.value());
}

base::Result<double> simulate_pingpong(const ViaSystem& system, std::uint64_t bytes,
                                       std::uint64_t round_trips, Trace* trace) {
    auto time = TwoPrograms(system).pingpong(bytes, round_trips, trace);
    if (!time) return std::move(time).error();
    return in_microseconds(time.value()) / (2.0 * static_cast<double>(round_trips));
}

base::Result<std::array<double, 2>> simulate_flows(const ViaSystem& system, Flows flows,
                                                   std::uint64_t bytes, std::uint64_t messages) {
    return TwoPrograms(system).flows(flows, bytes, messages);
}

}  // namespace via::sim
