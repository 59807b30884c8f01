// SPDX-License-Identifier: BSD-3-Clause
// How much of a link's rate a stream gets, in simulated time: the same on every machine.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>

#include "na/net/simulated_network.hpp"

namespace via::test {
namespace {

constexpr double gigabit = 125e6;
/// Of the rate, what is left for payload: headers of Ethernet, IP, UDP and the packet.
constexpr double payload_share = 1436.0 / (1472 + 66);

NetworkOptions gigabit_link() {
    NetworkOptions options;
    options.packet_bytes = 1472;
    options.faults.bytes_per_second = gigabit;
    options.faults.queue_bytes = 500'000;
    options.faults.jitter = 0;
    return options;
}

/// The share of what the links could carry that a stream of megabytes gets. `spoil` may change
/// links, `look` sees how it went.
double share_of_rate(const NetworkOptions& options, std::uint64_t seed,
                     const std::function<void(SimulatedNetwork&)>& spoil = nullptr,
                     const std::function<void(SimulatedNetwork&)>& look = nullptr) {
    constexpr std::size_t bytes = 1U << 20U;
    constexpr std::uint64_t messages = 40;
    constexpr std::uint64_t window = 4;
    std::vector<std::byte> from(bytes);
    std::vector<std::byte> to(bytes);
    SimulatedNetwork network(seed, options);
    if (spoil) spoil(network);
    const std::uint32_t from_handle = SimulatedNetwork::register_memory(from.data(), bytes, 0);
    const std::uint32_t to_handle = SimulatedNetwork::register_memory(to.data(), bytes, 0);
    SimulatedNetwork::Side& sender = network.side(0);
    SimulatedNetwork::Side& receiver = network.side(1);
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
    const auto post = [&] {
        sender.post_send(from, from_handle, std::nullopt, posted++);
        network.poll(0);
    };
    for (std::uint64_t i = 0; i < messages; ++i)
        receiver.post_receive(to, to_handle, i);
    const Nanoseconds start = network.now();
    for (std::uint64_t i = 0; i < window; ++i)
        post();
    network.run(100'000 * millisecond, [&] {
        while (sender.completed(sender.queues.send))
            if (posted < messages) post();
        while (receiver.completed(receiver.queues.receive))
            ++received;
        return received == messages;
    });
    EXPECT_EQ(received, messages);
    const auto seconds = static_cast<double>(network.now() - start) / 1e9;
    const double share = static_cast<double>(received * bytes) /
                         (seconds * options.links * options.faults.bytes_per_second);
    std::cout << "share " << share / payload_share << "\n";
    for (std::size_t i = 0; i < options.links; ++i) {
        const links::Link& link = sender.transport.link(i);
        const links::LinkCounters& counted = link.counters();
        std::cout << "  link " << i << ": sent " << counted.sent_packets << ", lost "
                  << counted.lost_packets << " (" << counted.spurious_losses
                  << " came after all), timeouts " << counted.timeouts << ", round trip "
                  << link.smoothed_rtt() / 1000 << " us, window " << link.window()
                  << ", packets of " << link.limits().packet_bytes << ", rate "
                  << static_cast<int>(link.rate() / 1e6) << " MB/s\n";
    }
    if (look) look(network);
    SimulatedNetwork::deregister_memory(from_handle);
    SimulatedNetwork::deregister_memory(to_handle);
    return share / payload_share;
}

TEST(ThroughputSimulation, AStreamFillsTheLink) {
    for (const Nanoseconds delay : {20 * microsecond, 500 * microsecond, 2 * millisecond}) {
        NetworkOptions options = gigabit_link();
        options.faults.delay = delay;
        EXPECT_GT(share_of_rate(options, 1), 0.93) << "delay " << delay;
    }
}

TEST(ThroughputSimulation, OnePercentOfLossCostsLittleOnAShortWay) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        NetworkOptions options = gigabit_link();
        options.faults.drop = 100;
        EXPECT_GT(share_of_rate(options, seed), 0.85) << "seed " << seed;
    }
}

/// Chance is not congestion.
TEST(ThroughputSimulation, OnePercentOfLossCostsLittleOnALongWay) {
    for (const Nanoseconds delay : {100 * microsecond, 500 * microsecond})
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            NetworkOptions options = gigabit_link();
            options.faults.delay = delay;
            options.faults.drop = 100;
            EXPECT_GT(share_of_rate(options, seed), 0.85) << "delay " << delay << ", seed " << seed;
        }
}

/// A queue that is too short to be felt is still not flooded.
TEST(ThroughputSimulation, AShortQueueOnALongWayIsNotFlooded) {
    for (const std::uint32_t queue : {20'000U, 60'000U}) {
        NetworkOptions options = gigabit_link();
        options.faults.delay = 500 * microsecond;
        options.faults.queue_bytes = queue;
        std::uint64_t sent = 0;
        std::uint64_t lost = 0;
        const double share = share_of_rate(options, 1, nullptr, [&](SimulatedNetwork& network) {
            const links::LinkCounters& counted = network.side(0).transport.link(0).counters();
            sent = counted.sent_packets;
            lost = counted.lost_packets;
        });
        // Trains of 64 KB do not fit into the shorter one.
        EXPECT_GT(share, queue < 64'000 / 2 ? 0.3 : 0.8) << "queue " << queue;
        EXPECT_LT(lost, sent / 33) << "queue " << queue;
    }
}

/// The policy that measures is never worse than one that does not, beyond a percent of chance.
TEST(ThroughputSimulation, AdaptiveIsAsGoodAsTheBestOnLinksOfWhichOneLoses) {
    const auto spoil = [](SimulatedNetwork& network) { network.faults(1).drop = 100; };
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        NetworkOptions options = gigabit_link();
        options.links = 2;
        double best = 0;
        for (const auto policy :
             {links::PolicyKind::Static, links::PolicyKind::OneWay, links::PolicyKind::Dynamic}) {
            options.policy = policy;
            best = std::max(best, share_of_rate(options, seed, spoil));
        }
        options.policy = links::PolicyKind::Adaptive;
        EXPECT_GT(share_of_rate(options, seed, spoil), 0.99 * best) << "seed " << seed;
    }
}

/// How long a message takes that is alone on links of 1 Gbit/s and 250 Mbit/s, in milliseconds,
/// once they are known.
double time_alone(links::PolicyKind policy, std::size_t bytes) {
    NetworkOptions options = gigabit_link();
    options.links = 2;
    options.policy = policy;
    SimulatedNetwork network(1, options);
    network.faults(1).bytes_per_second = gigabit / 4;
    std::vector<std::byte> memory(2 * bytes);
    const std::uint32_t handle = SimulatedNetwork::register_memory(memory.data(), memory.size(), 0);
    Nanoseconds taken = 0;
    for (std::uint64_t message = 0; message < 30; ++message) {
        network.side(1).post_receive(std::span(memory).subspan(bytes), handle, message);
        network.side(0).post_send(std::span(memory).first(bytes), handle, std::nullopt, message);
        const Nanoseconds start = network.now();
        network.poll(0);
        const bool came = network.run(10'000 * millisecond, [&] {
            return network.side(1).completed(network.side(1).queues.receive).has_value();
        });
        EXPECT_TRUE(came);
        taken = network.now() - start;
        // Until the next one all has been answered.
        network.run(20 * millisecond, [&] {
            (void)network.side(0).completed(network.side(0).queues.send);
            return false;
        });
    }
    SimulatedNetwork::deregister_memory(handle);
    std::cout << name_of(policy) << ", " << bytes << " bytes: " << taken / 1000 << " us\n";
    return static_cast<double>(taken) / 1e6;
}

TEST(ThroughputSimulation, AMessageAloneIsCutSoThatUnequalLinksFinishTogether) {
    for (const std::size_t bytes : {64U << 10U, 256U << 10U, 1U << 20U, 4U << 20U}) {
        const double least = static_cast<double>(bytes) / (1.25 * gigabit * payload_share) * 1e3;
        const double adaptive = time_alone(links::PolicyKind::Adaptive, bytes);
        EXPECT_LT(adaptive, 1.1 * least + 0.2) << bytes;
        if (bytes >= 1U << 20U) {
            EXPECT_LT(adaptive, time_alone(links::PolicyKind::Dynamic, bytes)) << bytes;
        }
    }
}

}  // namespace
}  // namespace via::test
