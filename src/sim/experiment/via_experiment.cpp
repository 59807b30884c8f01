// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/via_experiment.hpp"

namespace via::sim {
namespace {

/// Two hosts with a NIC each, and a link each way.
class TwoHosts {
  public:
    explicit TwoHosts(const ViaSystem& system)
        : system_(system),
          there_(simulation_, system.nic, buffers(), "link there"),
          back_(simulation_, system.nic, buffers(), "link back"),
          a_(*this, there_, back_, "a"),
          b_(*this, back_, there_, "b") {}

    [[nodiscard]] base::Result<Time> window(std::uint64_t bytes, std::uint64_t messages,
                                            Trace* trace) {
        return run(send_many(bytes, messages), receive_many(messages), trace);
    }
    [[nodiscard]] base::Result<Time> pingpong(std::uint64_t bytes, std::uint64_t rounds,
                                              Trace* trace) {
        return run(ping(bytes, rounds), pong(bytes, rounds), trace);
    }

  private:
    struct Host {
        Host(TwoHosts& hosts, Link& out, Link& in, const std::string& name)
            : bus(hosts.simulation_, hosts.system_.machine, name + " bus"),
              processor(bus.add_master(name + " processor")),
              nic(hosts.simulation_, bus, hosts.system_.machine, hosts.system_.nic,
                  hosts.system_.firmware, out, in, name + " NIC") {}
        PciBus bus;
        Requester processor;
        ViaNic nic;
    };

    [[nodiscard]] std::uint32_t buffers() const {
        return static_cast<std::uint32_t>(system_.firmware.buffers);
    }
    [[nodiscard]] base::Result<Time> run(Task<> first, Task<> second, Trace* trace) {
        simulation_.attach(trace);
        a_.nic.start();
        b_.nic.start();
        simulation_.spawn(std::move(first));
        simulation_.spawn(std::move(second));
        if (auto done = simulation_.run(); !done) return std::move(done).error();
        return ended_;
    }

    Task<> post(Host& host, std::uint64_t bytes) {
        co_await simulation_.delay(microseconds(system_.firmware.host_post));
        co_await host.bus.write_by_processor(
            host.processor, static_cast<std::uint64_t>(system_.firmware.host_writes), "post", 0);
        co_await host.nic.posted().put(bytes);
    }
    Task<> receive(Host& host) {
        [[maybe_unused]] const std::uint64_t message = co_await host.nic.received().take();
        co_await simulation_.delay(microseconds(system_.machine.poll));
    }

    Task<> send_many(std::uint64_t bytes, std::uint64_t messages) {
        for (std::uint64_t i = 0; i < messages; ++i)
            co_await post(a_, bytes);
    }
    Task<> receive_many(std::uint64_t messages) {
        for (std::uint64_t i = 0; i < messages; ++i)
            co_await receive(b_);
        ended_ = simulation_.now();
    }
    Task<> ping(std::uint64_t bytes, std::uint64_t rounds) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            co_await post(a_, bytes);
            co_await receive(a_);
        }
        ended_ = simulation_.now();
    }
    Task<> pong(std::uint64_t bytes, std::uint64_t rounds) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            co_await receive(b_);
            co_await post(b_, bytes);
        }
    }

    const ViaSystem& system_;
    Simulation simulation_;
    Link there_;
    Link back_;
    Host a_;
    Host b_;
    Time ended_ = 0;
};

}  // namespace

base::Result<double> simulate_window(const ViaSystem& system, std::uint64_t bytes,
                                     std::uint64_t messages, Trace* trace) {
    auto time = TwoHosts(system).window(bytes, messages, trace);
    if (!time) return std::move(time).error();
    return static_cast<double>(bytes * messages) / in_microseconds(time.value());
}

base::Result<double> simulate_pingpong(const ViaSystem& system, std::uint64_t bytes,
                                       std::uint64_t round_trips, Trace* trace) {
    auto time = TwoHosts(system).pingpong(bytes, round_trips, trace);
    if (!time) return std::move(time).error();
    return in_microseconds(time.value()) / (2.0 * static_cast<double>(round_trips));
}

}  // namespace via::sim
