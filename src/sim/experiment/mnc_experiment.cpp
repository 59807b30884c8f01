// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/mnc_experiment.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace via::sim {
namespace {

/// Two hosts with a bus each, and several NICs on it.
class ManyLinks {
  public:
    explicit ManyLinks(const MncSystem& system)
        : system_(system),
          a_(simulation_, system.gm.machine, "a"),
          b_(simulation_, system.gm.machine, "b") {
        const auto buffers = static_cast<std::uint32_t>(system.gm.firmware.buffers);
        for (std::uint32_t link = 0; link < system.links; ++link) {
            const std::string number = std::to_string(link);
            links_.push_back(std::make_unique<Link>(simulation_, system.gm.nic, buffers,
                                                    "link there " + number));
            links_.push_back(
                std::make_unique<Link>(simulation_, system.gm.nic, buffers, "link back " + number));
            Link& there = *links_[links_.size() - 2];
            Link& back = *links_.back();
            add_nic(a_, there, back, number);
            add_nic(b_, back, there, number);
        }
    }

    [[nodiscard]] base::Result<Time> window(std::uint64_t bytes, std::uint64_t messages) {
        simulation_.spawn(send_many(bytes, messages));
        simulation_.spawn(receive_many(messages));
        return run();
    }
    [[nodiscard]] base::Result<Time> pingpong(std::uint64_t bytes, std::uint64_t rounds) {
        simulation_.spawn(ping(bytes, rounds));
        simulation_.spawn(pong(bytes, rounds));
        return run();
    }

  private:
    struct Host {
        Host(Simulation& simulation, const Machine& machine, std::string own_name)
            : name(std::move(own_name)),
              bus(simulation, machine, name + " bus"),
              processor(bus.add_master(name + " processor")),
              complete(simulation) {}
        std::string name;
        PciBus bus;
        Requester processor;
        std::vector<std::unique_ptr<ViaNic>> nics;
        std::uint32_t sent = 0;                           ///< messages
        std::map<std::uint32_t, std::uint64_t> arriving;  ///< bytes, by message
        Mailbox<std::uint32_t> complete;                  ///< messages whose pieces are all there
    };

    void add_nic(Host& host, Link& out, Link& in, const std::string& number) {
        host.nics.push_back(std::make_unique<ViaNic>(
            simulation_, host.bus, system_.gm.machine, system_.gm.nic, system_.gm.firmware,
            system_.gm.locality, out, in, host.name + " NIC " + number));
        host.nics.back()->start();
    }
    [[nodiscard]] base::Result<Time> run() {
        if (auto done = simulation_.run(); !done) return std::move(done).error();
        return ended_;
    }
    [[nodiscard]] static std::vector<bool> states(const Host& host) {
        std::vector<bool> busy;
        for (const auto& nic : host.nics)
            busy.push_back(nic->busy());
        return busy;
    }

    /// Both sides cut alike, so that the pieces land in place.
    Task<> post(Host& host, Host& other, LinkChoice& choice, std::uint64_t bytes) {
        std::vector<std::size_t> links;
        if (choice.cuts() && bytes >= mnc_long_message) {
            co_await host.nics.front()->ask_state(*other.nics.front());
            links = choice.for_long(0, states(host), states(other));
        } else {
            links.push_back(choice.for_short(0, states(host)));
        }
        const std::uint32_t number = ++host.sent;
        std::uint64_t left = bytes;
        for (std::size_t i = 0; i < links.size(); ++i) {
            const std::uint64_t piece = left / (links.size() - i);
            left -= piece;
            co_await simulation_.delay(microseconds(system_.gm.firmware.host_post));
            co_await host.bus.write_by_processor(
                host.processor, static_cast<std::uint64_t>(system_.gm.firmware.host_writes), "post",
                0);
            const Message message{0, piece, number};
            co_await host.nics[links[i]]->posted().put(message);
        }
    }
    /// What arrives on one link, put together with what arrives on the others.
    Task<> collect(Host& host, ViaNic& nic, std::uint64_t bytes) {
        for (;;) {
            const Message piece = co_await nic.received().take();
            std::uint64_t& there = host.arriving[piece.flow];
            there += piece.bytes;
            if (there < bytes) continue;
            host.arriving.erase(piece.flow);
            co_await host.complete.put(piece.flow);
        }
    }
    void collect_all(Host& host, std::uint64_t bytes) {
        for (const auto& nic : host.nics)
            simulation_.spawn(collect(host, *nic, bytes));
    }
    Task<> receive(Host& host) {
        [[maybe_unused]] const std::uint32_t message = co_await host.complete.take();
        co_await simulation_.delay(microseconds(system_.gm.machine.poll));
    }

    Task<> send_many(std::uint64_t bytes, std::uint64_t messages) {
        collect_all(b_, bytes);
        LinkChoice choice(system_.policy, system_.links);
        for (std::uint64_t i = 0; i < messages; ++i)
            co_await post(a_, b_, choice, bytes);
    }
    Task<> receive_many(std::uint64_t messages) {
        for (std::uint64_t i = 0; i < messages; ++i)
            co_await receive(b_);
        ended_ = simulation_.now();
    }
    Task<> ping(std::uint64_t bytes, std::uint64_t rounds) {
        collect_all(a_, bytes);
        LinkChoice choice(system_.policy, system_.links);
        for (std::uint64_t i = 0; i < rounds; ++i) {
            co_await post(a_, b_, choice, bytes);
            co_await receive(a_);
        }
        ended_ = simulation_.now();
    }
    Task<> pong(std::uint64_t bytes, std::uint64_t rounds) {
        collect_all(b_, bytes);
        LinkChoice choice(system_.policy, system_.links);
        for (std::uint64_t i = 0; i < rounds; ++i) {
            co_await receive(b_);
            co_await post(b_, a_, choice, bytes);
        }
    }

    const MncSystem& system_;
    Simulation simulation_;
    std::vector<std::unique_ptr<Link>> links_;
    Host a_;
    Host b_;
    Time ended_ = 0;
};

}  // namespace

base::Result<double> simulate_mnc_window(const MncSystem& system, std::uint64_t bytes,
                                         std::uint64_t messages) {
    auto time = ManyLinks(system).window(bytes, messages);
    if (!time) return std::move(time).error();
    return static_cast<double>(bytes * messages) / in_microseconds(time.value());
}

base::Result<double> simulate_mnc_pingpong(const MncSystem& system, std::uint64_t bytes,
                                           std::uint64_t round_trips) {
    auto time = ManyLinks(system).pingpong(bytes, round_trips);
    if (!time) return std::move(time).error();
    return in_microseconds(time.value()) / (2.0 * static_cast<double>(round_trips));
}

}  // namespace via::sim
