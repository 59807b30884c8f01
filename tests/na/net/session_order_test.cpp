// SPDX-License-Identifier: BSD-3-Clause
// The order of operations: fences, as many under way as may be, and the goodbye behind them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

TEST(SessionOrder, AFenceWaitsForTheReadsBeforeIt) {
    for (const bool fence : {true, false}) {
        SimulatedNetwork network(50, options_of(1));
        Side& sender = network.side(0);
        Side& receiver = network.side(1);
        Memory source(long_bytes, ka::right_rdma_read);
        Memory place(long_bytes);
        Memory to(64);
        std::fill(source.data.begin(), source.data.end(), std::byte{7});
        receiver.post_receive(to.part(0, 64), to.handle, 1);
        sender.post_read(place.part(0, long_bytes), place.handle, source.data.data(), source.handle,
                         1);
        sender.post_send(place.part(0, 64), place.handle, std::nullopt, 2, fence);
        network.poll(0);
        ASSERT_TRUE(network.run(1'000 * millisecond,
                                [&] { return receiver.queues.receive.harvestable(); }));
        // An unfenced message overtakes the data of a read, a fenced one carries it.
        EXPECT_EQ(sender.completed(sender.queues.send).has_value(), fence);
        EXPECT_EQ(to.data[0] == std::byte{7}, fence);
    }
}

TEST(SessionOrder, MoreOperationsThanMayBeUnderWay) {
    SimulatedNetwork network(51, options_of(1));
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    constexpr std::uint64_t messages = 3 * na::net::Session::most_operations;
    Memory from(messages * 8);
    Memory to(messages * 8);
    fill_pattern(from.data, 6);
    for (std::uint64_t i = 0; i < messages; ++i) {
        receiver.post_receive(to.part(i * 8, 8), to.handle, i);
        sender.post_send(from.part(i * 8, 8), from.handle, std::nullopt, i);
    }
    network.faults(0).drop = 300;
    network.poll(0);
    std::uint64_t sent = 0;
    ASSERT_TRUE(network.run(2'000 * millisecond, [&] {
        while (const auto entry = sender.completed(sender.queues.send)) {
            EXPECT_EQ(error_of(entry), 0U);
            ++sent;
        }
        return sent == messages;
    }));
    EXPECT_EQ(matching_bytes(to.data, 6), to.data.size());
    EXPECT_FALSE(receiver.session.halted());
}

/// Answers to reads come on top of what the program has posted itself.
TEST(SessionOrder, ReadsAreServedWhileAllOperationsAreUnderWay) {
    SimulatedNetwork network(52, options_of(1));
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    constexpr std::uint64_t messages = na::net::Session::most_operations;
    constexpr std::uint64_t reads = na::net::Session::most_reads;
    Memory from(64, ka::right_rdma_read);
    Memory to(64);
    Memory place(reads * 64);
    fill_pattern(from.data, 7);
    for (std::uint64_t i = 0; i < messages; ++i)
        receiver.post_receive(to.part(0, 8), to.handle, i);
    network.run(20 * millisecond, [] { return false; });
    // The first packets are lost, so nothing is delivered while the rest is sent.
    network.cut(0, 0, true);
    for (std::uint64_t i = 0; i < messages / 2; ++i)
        sender.post_send(from.part(0, 8), from.handle, std::nullopt, i);
    network.poll(0);
    network.cut(0, 0, false);
    for (std::uint64_t i = 0; i < messages / 2; ++i)
        sender.post_send(from.part(0, 8), from.handle, std::nullopt, i);
    for (std::uint64_t i = 0; i < reads; ++i)
        receiver.post_read(place.part(i * 64, 64), place.handle, from.data.data(), from.handle, i);
    network.poll(0);
    network.poll(1);
    std::uint64_t sent = 0;
    std::uint64_t read = 0;
    network.run(2'000 * millisecond, [&] {
        while (const auto entry = sender.completed(sender.queues.send))
            sent += error_of(entry) == 0U ? 1U : 0U;
        while (const auto entry = receiver.completed(receiver.queues.send))
            read += error_of(entry) == 0U ? 1U : 0U;
        return sent == messages && read == reads;
    });
    EXPECT_EQ(sent, messages);
    EXPECT_EQ(read, reads);
    EXPECT_FALSE(has_event(receiver, EndpointEvent::ProtocolViolation));
}

TEST(SessionOrder, GoodbyeIsHeardAndAnswered) {
    SimulatedNetwork network(53, options_of(2));
    network.run(20 * millisecond, [] { return false; });
    for (const std::size_t link : {0U, 1U})
        network.faults(link).drop = 5'000;
    disconnect(network, 0);
    ASSERT_TRUE(network.run(900 * millisecond, [&] { return network.side(0).transport.closed(); }));
    EXPECT_TRUE(network.side(1).session.peer_closed());
    EXPECT_TRUE(has_event(network.side(1), EndpointEvent::PeerDisconnected));
    EXPECT_FALSE(has_event(network.side(1), EndpointEvent::PeerDied));
}

}  // namespace
}  // namespace via::test
