// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/mnc_experiment.hpp"

#include <map>
#include <utility>
#include <vector>

namespace via::sim {
namespace {

/// The programs that run on the two hosts, on MNC.
class MncPrograms {
  public:
    explicit MncPrograms(const MncSystem& system)
        : system_(system), cluster_(system.gm, 2, system.links), a_(cluster_, 0), b_(cluster_, 1) {}

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
    struct Side {
        Side(Cluster& cluster, std::uint32_t number)
            : host(cluster.host(number)), complete(cluster.simulation()) {}
        Cluster::Host& host;
        std::uint32_t sent = 0;                           ///< messages
        std::map<std::uint32_t, std::uint64_t> arriving;  ///< bytes, by message
        Mailbox<std::uint32_t> complete;                  ///< messages whose pieces are all there
    };

    [[nodiscard]] base::Result<Time> run() {
        if (auto done = simulation_.run(); !done) return std::move(done).error();
        return ended_;
    }
    [[nodiscard]] static std::vector<bool> states(const Side& side) {
        std::vector<bool> busy;
        for (const auto& nic : side.host.nics)
            busy.push_back(nic->busy());
        return busy;
    }

    /// Both sides cut alike, so that the pieces land in place.
    Task<> post(Side& side, Side& other, LinkChoice& choice, std::uint64_t bytes) {
        std::vector<std::size_t> links;
        if (choice.cuts() && bytes >= mnc_long_message) {
            co_await side.host.nics.front()->ask_state(*other.host.nics.front());
            links = choice.for_long(0, states(side), states(other));
        } else {
            links.push_back(choice.for_short(0, states(side)));
        }
        const std::uint32_t number = ++side.sent;
        std::uint64_t left = bytes;
        for (std::size_t i = 0; i < links.size(); ++i) {
            Message piece;
            piece.bytes = left / (links.size() - i);
            piece.flow = number;
            piece.to = other.host.number;
            left -= piece.bytes;
            co_await cluster_.post(side.host, static_cast<std::uint32_t>(links[i]),
                                   std::move(piece));
        }
    }
    /// What arrives on one link, put together with what arrives on the others.
    Task<> collect(Side& side, ViaNic& nic, std::uint64_t bytes) {
        for (;;) {
            const Message piece = co_await nic.received().take();
            std::uint64_t& there = side.arriving[piece.flow];
            there += piece.bytes;
            if (there < bytes) continue;
            side.arriving.erase(piece.flow);
            co_await side.complete.put(piece.flow);
        }
    }
    void collect_all(Side& side, std::uint64_t bytes) {
        for (const auto& nic : side.host.nics)
            simulation_.spawn(collect(side, *nic, bytes));
    }
    Task<> receive(Side& side) {
        [[maybe_unused]] const std::uint32_t message = co_await side.complete.take();
        co_await simulation_.delay(cluster_.poll_time());
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
    Cluster cluster_;
    Simulation& simulation_ = cluster_.simulation();
    Side a_;
    Side b_;
    Time ended_ = 0;
};

}  // namespace

base::Result<double> simulate_mnc_window(const MncSystem& system, std::uint64_t bytes,
                                         std::uint64_t messages) {
    auto time = MncPrograms(system).window(bytes, messages);
    if (!time) return std::move(time).error();
    return static_cast<double>(bytes * messages) / in_microseconds(time.value());
}

base::Result<double> simulate_mnc_pingpong(const MncSystem& system, std::uint64_t bytes,
                                           std::uint64_t round_trips) {
    auto time = MncPrograms(system).pingpong(bytes, round_trips);
    if (!time) return std::move(time).error();
    return in_microseconds(time.value()) / (2.0 * static_cast<double>(round_trips));
}

}  // namespace via::sim
