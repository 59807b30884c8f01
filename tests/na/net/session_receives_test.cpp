// SPDX-License-Identifier: BSD-3-Clause
// Messages and the receives they meet: none at all, too short, of no length, of many segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

TEST(SessionReceives, AnEmptyQueueBreaksAReliableConnection) {
    for (const std::uint32_t level : {na::reliable_delivery, na::reliable_reception}) {
        SimulatedNetwork network(30, options_of(1, level));
        Side& sender = network.side(0);
        Side& receiver = network.side(1);
        Memory from(100);
        Memory to(100);
        receiver.post_receive(to.part(0, 100), to.handle, 1);
        for (std::uint64_t i = 0; i < 3; ++i)
            sender.post_send(from.part(0, 100), from.handle, std::nullopt, i);
        network.poll(0);
        ASSERT_TRUE(network.run(100 * millisecond, [&] { return receiver.session.halted(); }));
        EXPECT_TRUE(has_event(receiver, EndpointEvent::ReceiveQueueEmpty));
        EXPECT_EQ(error_of(receiver.completed(receiver.queues.receive)), 0U);
        disconnect(network, 1);
        ASSERT_TRUE(network.run(100 * millisecond, [&] { return sender.session.peer_closed(); }));
        EXPECT_TRUE(has_event(sender, EndpointEvent::PeerDisconnected));
        EXPECT_EQ(error_of(sender.completed(sender.queues.send)), 0U) << "the first was delivered";
        EXPECT_EQ(error_of(sender.completed(sender.queues.send)),
                  level == na::reliable_reception ? na::status_remote_descriptor : 0U);
        EXPECT_FALSE(sender.completed(sender.queues.send)) << "the third is left to be flushed";
    }
}

TEST(SessionReceives, AMessageThatIsTooLongBreaksAReliableConnection) {
    SimulatedNetwork network(31, options_of(1, na::reliable_reception));
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    Memory from(5'000);
    Memory to(5'000);
    fill_pattern(from.data, 4);
    receiver.post_receive(to.part(0, 3'000), to.handle, 1);
    sender.post_send(from.part(0, 5'000), from.handle, std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return receiver.session.halted(); }));
    const auto entry = receiver.completed(receiver.queues.receive);
    EXPECT_EQ(error_of(entry), na::status_length | na::status_partial);
    EXPECT_EQ(entry->length, 3'000U);
    EXPECT_EQ(matching_bytes(to.part(0, 3'000), 4), 3'000U);
    for (const std::byte byte : to.part(3'000, 2'000))
        ASSERT_EQ(byte, std::byte{0});
    disconnect(network, 1);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_remote_descriptor);
}

TEST(SessionReceives, MessagesOfNoLength) {
    for (const std::uint32_t level :
         {na::unreliable, na::reliable_delivery, na::reliable_reception}) {
        SimulatedNetwork network(32, options_of(1, level));
        Side& sender = network.side(0);
        Side& receiver = network.side(1);
        Memory open(64, ka::right_rdma_write | ka::right_rdma_read);
        Memory to(64);
        receiver.post_receive({}, 0, 1);
        receiver.post_receive(to.part(0, 64), to.handle, 2);
        receiver.post_receive({}, 0, 3);
        sender.post_send({}, 0, std::nullopt, 1);
        sender.post_send({}, 0, 77, 2);
        sender.post_write({}, 0, open.data.data(), open.handle, 88, 3);
        const bool reads = level != na::unreliable;
        if (reads) sender.post_read({}, 0, open.data.data(), open.handle, 4);
        network.poll(0);
        network.run(50 * millisecond, [] { return false; });
        for (int i = 0; i < (reads ? 4 : 3); ++i)
            EXPECT_EQ(error_of(sender.completed(sender.queues.send)), 0U) << "send " << i;
        for (std::uint64_t i = 1; i <= 3; ++i) {
            const auto entry = receiver.completed(receiver.queues.receive);
            ASSERT_EQ(error_of(entry), 0U) << "receive " << i;
            EXPECT_EQ(entry->cookie, i);
            EXPECT_EQ(entry->length, 0U);
            EXPECT_EQ((entry->status & na::status_immediate) != 0, i != 1);
        }
        EXPECT_TRUE(to.untouched());
    }
}

/// `count` pieces of the memory that follow each other, of different lengths.
std::vector<na::PhysicalDescriptor> cut_up(Memory& memory, std::size_t bytes, std::uint32_t count,
                                           std::uint64_t seed) {
    Random random(seed);
    std::vector<na::PhysicalDescriptor> segments;
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::size_t left = bytes - at;
        const std::size_t length =
            i + 1 == count ? left
                           : std::min<std::size_t>(
                                 left, random.below(static_cast<std::uint32_t>(2 * bytes / count)));
        segments.push_back({reinterpret_cast<std::uint64_t>(memory.data.data() + at),
                            static_cast<std::uint32_t>(length), memory.handle});
        at += length;
    }
    return segments;
}

TEST(SessionReceives, SixtyFourSegmentsIntoSixtyFourOthers) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed)
        for (const std::uint32_t level : {na::unreliable, na::reliable_delivery}) {
            SimulatedNetwork network(33, options_of(1, level));
            const std::size_t bytes = seed * seed * 500;
            Memory from(bytes);
            Memory to(bytes);
            fill_pattern(from.data, seed);
            post_segments(network.side(1).queues.receive, na::Operation::Receive,
                          cut_up(to, bytes, 64, seed));
            post_segments(network.side(0).queues.send, na::Operation::Send,
                          cut_up(from, bytes, 64, seed + 100));
            network.faults(0).jitter = 0;
            network.poll(0);
            std::optional<na::WorkEntry> entry;
            network.run(500 * millisecond, [&] {
                entry = network.side(1).completed(network.side(1).queues.receive);
                return entry.has_value();
            });
            ASSERT_EQ(error_of(entry), 0U) << bytes << " bytes";
            EXPECT_EQ(entry->length, bytes);
            EXPECT_EQ(matching_bytes(to.data, seed), bytes);
        }
}

}  // namespace
}  // namespace via::test
