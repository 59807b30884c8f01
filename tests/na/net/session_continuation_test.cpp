// SPDX-License-Identifier: BSD-3-Clause
// The middle of a long message goes without its frame header: which packets continue it, and which
// may not.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

/// An operation under way, the third. Its pieces have 100 bytes.
struct Third {
    wire::FrameType type = wire::FrameType::Send;
    std::uint32_t total = 1'000;
};

bool begins(Side& side, const Third& third) {
    const std::array<std::byte, 100> payload{};
    wire::DataFrame frame;
    frame.type = third.type;
    frame.message = 2;
    frame.receive = 2;
    frame.total = third.total;
    frame.length = third.type == wire::FrameType::ReadRequest ? 0 : payload.size();
    return side.session.take(frame, std::span(payload).first(frame.length));
}

bool continues(Side& side, std::uint32_t message, std::uint32_t offset) {
    const std::array<std::byte, 100> payload{};
    return side.session.take_continued({message, offset}, payload);
}

TEST(Continuation, TheMiddleOfALongMessageFillsItsPackets) {
    for (const bool sealed : {false, true})
        for (const std::uint32_t level :
             {na::unreliable, na::reliable_delivery, na::reliable_reception}) {
            SCOPED_TRACE("level " + std::to_string(level) + (sealed ? ", sealed" : ""));
            NetworkOptions options = options_of(1, level);
            options.sealed = sealed;
            options.long_packets = false;
            options.faults.jitter = 0;
            SimulatedNetwork network(31, options);
            Memory from(200'000);
            Memory to(200'000);
            fill_pattern(from.data, 5);
            std::size_t full = 0;
            std::size_t continued = 0;
            network.on_packet = [&](std::size_t side, std::size_t,
                                    std::span<const std::byte> packet) {
                if (side != 0 || packet.size() < 1'000) return;
                const auto header = wire::decode_packet_header(packet.data());
                const bool is = (header.flags & wire::packet_continues) != 0;
                is ? ++continued : ++full;
            };
            network.run(20 * millisecond, [] { return false; });  // the link is up
            network.side(1).post_receive(to.part(0, 200'000), to.handle, 1);
            network.side(0).post_send(from.part(0, 200'000), from.handle, 77, 2);
            network.poll(0);
            std::optional<na::WorkEntry> entry;
            ASSERT_TRUE(network.run(1'000 * millisecond, [&] {
                if (!entry) entry = network.side(1).completed(network.side(1).queues.receive);
                return entry.has_value();
            }));
            EXPECT_EQ(error_of(entry), 0U);
            EXPECT_EQ(entry->immediate, 77U);
            EXPECT_EQ(matching_bytes(to.data, 5), 200'000U);
            EXPECT_GT(continued, 8 * full) << full;
        }
}

/// How many packets of full length it takes to bring 500,000 bytes over such a network.
std::size_t packets_needed(const LinkFaults& faults) {
    NetworkOptions options = options_of(1);
    options.faults = faults;
    options.faults.jitter = 0;
    options.long_packets = false;
    SimulatedNetwork network(35, options);
    Memory from(500'000);
    Memory to(500'000);
    fill_pattern(from.data, 6);
    std::size_t packets = 0;
    network.on_packet = [&](std::size_t side, std::size_t, std::span<const std::byte> packet) {
        if (side == 0 && packet.size() > 1'000) ++packets;
    };
    network.side(1).post_receive(to.part(0, 500'000), to.handle, 1);
    network.side(0).post_send(from.part(0, 500'000), from.handle, std::nullopt, 2);
    network.poll(0);
    const bool came = network.run(10'000 * millisecond, [&] {
        return network.side(1).completed(network.side(1).queues.receive).has_value();
    });
    EXPECT_TRUE(came);
    EXPECT_EQ(matching_bytes(to.data, 6), 500'000U);
    return packets;
}

TEST(Continuation, WhatComesAgainTakesNoMorePacketsThanBefore) {
    const std::size_t least = packets_needed({});
    EXPECT_LE(least, 500'000 / 1'370);
    // Refused by the kernel: a number is used up, but nothing was sent.
    LinkFaults full;
    full.full = 5'000;
    EXPECT_LE(packets_needed(full), least + least / 20);
    LinkFaults lossy;
    lossy.drop = 1'000;
    EXPECT_LE(packets_needed(lossy), least + least / 5);
}

TEST(Continuation, WhatTheKernelRefusesIsPendingAsBefore) {
    NetworkOptions options = options_of(1);
    options.faults.full = 10'000;
    SimulatedNetwork network(36, options);
    Memory from(300'000);
    for (std::uint64_t i = 0; i < 3; ++i)
        network.side(0).post_send(from.part(0, 100'000), from.handle, std::nullopt, i);
    network.poll(0);
    const std::uint64_t pending = network.side(0).session.pending_bytes();
    EXPECT_GE(pending, 300'000U);
    network.run(100 * millisecond, [] { return false; });
    EXPECT_EQ(network.side(0).session.pending_bytes(), pending);
}

TEST(Continuation, BeforeItsBeginningItCountsAsLost) {
    SimulatedNetwork network(32, options_of(1));
    Side& side = network.side(1);
    Memory place(3'000);
    for (std::uint64_t i = 0; i < 3; ++i)
        side.post_receive(place.part(1'000 * i, 1'000), place.handle, i);
    EXPECT_FALSE(continues(side, 2, 100));
    EXPECT_FALSE(side.session.halted());
    ASSERT_TRUE(begins(side, {}));
    EXPECT_FALSE(continues(side, 1, 100));  // another one that has not begun
    EXPECT_TRUE(continues(side, 2, 100));
    EXPECT_TRUE(continues(side, 2, 100));  // once more
    EXPECT_TRUE(continues(side, 2, 900));
    EXPECT_FALSE(side.session.halted());
}

TEST(Continuation, OfALostMessageIsLostWhereThatMayBe) {
    SimulatedNetwork network(33, options_of(1, na::unreliable));
    Side& side = network.side(1);
    Memory place(1'000);
    side.post_receive(place.part(0, 1'000), place.handle, 1);
    EXPECT_TRUE(continues(side, 2, 100));
    EXPECT_FALSE(side.session.halted());
    EXPECT_FALSE(side.completed(side.queues.receive));
}

TEST(Continuation, BeyondItsOperationBreaksTheRules) {
    struct Case {
        Third third;
        std::uint32_t offset;
    };
    for (const Case& wrong : {Case{{}, 901}, Case{{}, 1'000}, Case{{}, 1'001}, Case{{}, ~0U},
                              Case{{wire::FrameType::ReadRequest, 1'000}, 0}}) {
        SCOPED_TRACE(std::to_string(wrong.offset));
        SimulatedNetwork network(34, options_of(1));
        Side& side = network.side(1);
        Memory place(3'000);
        for (std::uint64_t i = 0; i < 3; ++i)
            side.post_receive(place.part(1'000 * i, 1'000), place.handle, i);
        ASSERT_TRUE(begins(side, wrong.third));
        EXPECT_FALSE(continues(side, 2, wrong.offset));
        EXPECT_TRUE(has_event(side, EndpointEvent::ProtocolViolation));
    }
}

}  // namespace
}  // namespace via::test
