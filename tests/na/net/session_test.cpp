// SPDX-License-Identifier: BSD-3-Clause
// One rule of the protocol at a time, over a simulated network.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

using na::EndpointEvent;
using Side = SimulatedNetwork::Side;

bool has_event(const Side& side, EndpointEvent event) {
    return (side.queues.events & static_cast<std::uint32_t>(event)) != 0;
}

/// As an endpoint does it when the user agent ends the connection.
void disconnect(SimulatedNetwork& network, std::size_t index) {
    Side& side = network.side(index);
    const wire::CloseFrame reason = side.session.reason();
    side.session.detach();
    side.transport.close(reason, network.now());
    network.poll(index);
}

// ---- continuations ----------------------------------------------------------------------------

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

/// One message from side 0 to side 1, in a network that keeps its order.
class LongPackets : public testing::Test {
  protected:
    static constexpr std::size_t bytes = 500'000;
    static constexpr std::uint32_t token = 900;

    explicit LongPackets(std::uint32_t joined = 0) {
        NetworkOptions options = options_of(1);
        options.faults.jitter = 0;
        options.faults.joined = joined;
        options.tokens = token;
        network.emplace(36, options);
        fill_pattern(from.data, 8);
        network->on_packet = [&](std::size_t side, std::size_t, std::span<const std::byte> packet) {
            if (side != 0) return;
            const auto word = wire::load<std::uint32_t>(packet.data());
            if (~word == receivers_token())
                ++begun;
            else if (word == receivers_token() && packet.size() > 1'000)
                ++full;
        };
    }
    void SetUp() override {
        network->run(20 * millisecond, [] { return false; });  // the link is up
        sends_all();                                           // one has shown the way
        begun = full = 0;
    }
    [[nodiscard]] static std::uint32_t receivers_token() { return token + 1; }
    void sends_all() {
        fill_pattern(to.data, 9);
        network->side(1).post_receive(to.part(0, bytes), to.handle, 1);
        network->side(0).post_send(from.part(0, bytes), from.handle, std::nullopt, 2);
        network->poll(0);
        std::optional<na::WorkEntry> entry;
        ASSERT_TRUE(network->run(1'000 * millisecond, [&] {
            if (!entry) entry = network->side(1).completed(network->side(1).queues.receive);
            return entry.has_value();
        }));
        EXPECT_EQ(error_of(entry), 0U);
        EXPECT_EQ(matching_bytes(to.data, 8), bytes);
        // What came twice counts as sent once.
        ASSERT_TRUE(network->run(1'000 * millisecond, [&] {
            return network->side(0).completed(network->side(0).queues.send).has_value();
        }));
    }

    Memory from{bytes};
    Memory to{bytes};
    std::optional<SimulatedNetwork> network;
    std::size_t begun = 0;  ///< long packets
    std::size_t full = 0;   ///< others that fill a datagram
};

class LongPacketsJoined : public LongPackets {
  protected:
    LongPacketsJoined() : LongPackets(10'000) {}
};

TEST_F(LongPackets, CarryALongMessage) {
    sends_all();
    EXPECT_EQ(full, 0U);
    EXPECT_GE(begun, 8U);
    EXPECT_LE(begun, 10U);
}

TEST_F(LongPacketsJoined, AreTakenWhereTheyLie) {
    sends_all();
    EXPECT_EQ(full, 0U);
    EXPECT_EQ(network->side(1).transport.damaged_packets(), 0U);
}

/// Loses the n-th datagram of full length.
void lose_nth(SimulatedNetwork& network, std::size_t nth, std::size_t& seen) {
    network.swallows = [&seen, nth](std::size_t side, std::size_t,
                                    std::span<const std::byte> packet) {
        return side == 0 && packet.size() > 1'000 && ++seen == nth;
    };
}

TEST_F(LongPackets, OneDatagramLostAndTheRestGoesInShortOnes) {
    // The first of a packet, one in its middle, its last one.
    for (const std::size_t nth : {std::size_t{47}, std::size_t{70}, std::size_t{92}}) {
        SCOPED_TRACE(nth);
        full = 0;
        std::size_t seen = 0;
        lose_nth(*network, nth, seen);
        sends_all();
        EXPECT_GT(full, 40U);
        // Until so many have come through, none is tried again.
        begun = 0;
        sends_all();
        EXPECT_EQ(begun, 0U);
        // Each loss makes it wait longer for the next.
        for (int i = 0; i < 40 && !network->side(0).transport.link(0).carries_long_packets(); ++i)
            sends_all();
        EXPECT_TRUE(network->side(0).transport.link(0).carries_long_packets());
    }
}

TEST_F(LongPacketsJoined, OneThatMissesADatagramDoesNotCostThoseBehindIt) {
    std::size_t seen = 0;
    lose_nth(*network, 70, seen);
    sends_all();
    EXPECT_GT(full, 40U);
    EXPECT_GE(network->side(1).transport.damaged_packets(), 1U);
}

TEST_F(LongPackets, NoneWhereTheirDatagramsChangePlaces) {
    network->faults(0).jitter = 50 * microsecond;
    sends_all();
    begun = 0;
    // 15,000 packets: each trial costs one, and the next is twice as far away.
    for (int i = 0; i < 40; ++i)
        sends_all();
    EXPECT_LE(begun, 5U);
}

TEST_F(LongPackets, NoneOnALinkThatTakesItsTime) {
    network->faults(0).bytes_per_second = 125e6;
    network->faults(0).queue_bytes = 1U << 20U;
    sends_all();
    begun = full = 0;
    sends_all();
    EXPECT_EQ(begun, 0U);
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

// ---- RDMA that is not allowed -------------------------------------------------------------------

struct RdmaTarget {
    const std::byte* address;
    std::uint32_t handle;
};

/// Performs an RDMA write that must be refused: the memory stays as it is, the target's end says
/// why, and the sender hears it.
void expect_write_refused(SimulatedNetwork& network, const RdmaTarget& target) {
    Memory from(5'000);
    fill_pattern(from.data, 1);
    Side& sender = network.side(0);
    sender.post_write(from.part(0, 5'000), from.handle, target.address, target.handle, std::nullopt,
                      1);
    network.poll(0);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return network.side(1).session.halted(); }));
    EXPECT_TRUE(has_event(network.side(1), EndpointEvent::RdmaWriteRefused));
    EXPECT_FALSE(has_event(network.side(1), EndpointEvent::ProtocolViolation));
    disconnect(network, 1);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_rdma_protection);
}

class Rdma : public testing::Test {
  protected:
    SimulatedNetwork network{20, options_of(1, na::reliable_reception)};
    Memory target{5'000, ka::right_rdma_write | ka::right_rdma_read};
};

TEST_F(Rdma, WithTheRightNamesItIsDone) {
    Memory from(5'000);
    fill_pattern(from.data, 1);
    Side& sender = network.side(0);
    sender.post_write(from.part(0, 5'000), from.handle, target.data.data(), target.handle,
                      std::nullopt, 1);
    network.poll(0);
    std::optional<na::WorkEntry> entry;
    network.run(100 * millisecond, [&] {
        entry = sender.completed(sender.queues.send);
        return entry.has_value();
    });
    EXPECT_EQ(error_of(entry), 0U);
    EXPECT_EQ(matching_bytes(target.data, 1), 5'000U);
}

TEST_F(Rdma, AWrongHandleIsRefused) {
    expect_write_refused(network, {target.data.data(), target.handle + (1U << 16U)});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, AnotherTagsMemoryIsRefused) {
    Memory foreign(5'000, ka::right_rdma_write, 2);
    expect_write_refused(network, {foreign.data.data(), foreign.handle});
    EXPECT_TRUE(foreign.untouched());
}

TEST_F(Rdma, ARangeBeyondTheRegionIsRefused) {
    expect_write_refused(network, {target.data.data() + 1, target.handle});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, ARangeBeforeTheRegionIsRefused) {
    expect_write_refused(network, {target.data.data() - 1, target.handle});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, MemoryWithoutTheRightIsRefused) {
    Memory closed(5'000, ka::right_rdma_read);
    expect_write_refused(network, {closed.data.data(), closed.handle});
    EXPECT_TRUE(closed.untouched());
}

TEST_F(Rdma, AViWithoutTheRightRefuses) {
    network.side(1).queues.local.rights = ka::right_rdma_read;
    expect_write_refused(network, {target.data.data(), target.handle});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, AReadThatIsNotAllowedIsRefused) {
    Memory closed(5'000, ka::right_rdma_write);
    fill_pattern(closed.data, 3);
    Memory place(5'000);
    Side& reader = network.side(0);
    reader.post_read(place.part(0, 5'000), place.handle, closed.data.data(), closed.handle, 1);
    network.poll(0);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return network.side(1).session.halted(); }));
    EXPECT_TRUE(has_event(network.side(1), EndpointEvent::RdmaReadRefused));
    disconnect(network, 1);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return reader.session.peer_closed(); }));
    EXPECT_EQ(error_of(reader.completed(reader.queues.send)), na::status_rdma_protection);
    EXPECT_TRUE(place.untouched());
}

// ---- receives -----------------------------------------------------------------------------------

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

/// A chain with many segments, as the user agent posts it.
void post_segments(na::WorkQueue& queue, na::Operation operation,
                   const std::vector<na::PhysicalDescriptor>& segments) {
    std::uint32_t length = 0;
    for (const auto& segment : segments)
        length += segment.length;
    const na::ChainHead head{operation, 0, static_cast<std::uint16_t>(segments.size()), length, 0};
    queue.make_room(head.chain_pds());
    queue.post(1, 0, head.chain_pds(),
               operation == na::Operation::Receive ? na::status_op_receive : na::status_op_send);
    queue.pds.push(na::encode_head(head));
    for (const auto& segment : segments)
        queue.pds.push(segment);
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

// ---- memory that goes away ----------------------------------------------------------------------

constexpr std::size_t long_bytes = 2U << 20U;

/// Until some, but not all, has come.
bool run_into_the_middle(SimulatedNetwork& network, const Memory& to) {
    return network.run(1'000 * millisecond,
                       [&] { return to.data[long_bytes / 2] != std::byte{0}; });
}

class Deregistered : public testing::Test {
  protected:
    Deregistered() { std::fill(from.data.begin(), from.data.end(), std::byte{7}); }
    SimulatedNetwork network{40, options_of(1, na::reliable_reception)};
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    Memory from{long_bytes, ka::right_rdma_read};
    Memory to{long_bytes, ka::right_rdma_write};
};

TEST_F(Deregistered, TheSendersMemory) {
    receiver.post_receive(to.part(0, long_bytes), to.handle, 1);
    sender.post_send(from.part(0, long_bytes), from.handle, std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(from.handle);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.halted(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_protection);
    disconnect(network, 0);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.peer_closed(); }));
    EXPECT_FALSE(receiver.completed(receiver.queues.receive)) << "half a message was delivered";
    EXPECT_EQ(to.data.back(), std::byte{0});
}

TEST_F(Deregistered, TheReceiversMemory) {
    receiver.post_receive(to.part(0, long_bytes), to.handle, 1);
    sender.post_send(from.part(0, long_bytes), from.handle, std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(to.handle);
    const std::vector<std::byte> before = to.data;
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.halted(); }));
    EXPECT_EQ(to.data, before) << "memory was written after it was deregistered";
    const auto entry = receiver.completed(receiver.queues.receive);
    EXPECT_EQ(error_of(entry), na::status_protection);
    EXPECT_EQ(entry->length, 0U);
    disconnect(network, 1);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_remote_descriptor);
}

TEST_F(Deregistered, TheTargetOfAWrite) {
    sender.post_write(from.part(0, long_bytes), from.handle, to.data.data(), to.handle,
                      std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(to.handle);
    const std::vector<std::byte> before = to.data;
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.halted(); }));
    EXPECT_EQ(to.data, before);
    EXPECT_TRUE(has_event(receiver, EndpointEvent::RdmaWriteRefused));
    disconnect(network, 1);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_rdma_protection);
}

TEST_F(Deregistered, TheSourceOfARead) {
    receiver.post_read(to.part(0, long_bytes), to.handle, from.data.data(), from.handle, 1);
    network.poll(1);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(from.handle);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.halted(); }));
    EXPECT_TRUE(has_event(sender, EndpointEvent::RdmaReadRefused));
    disconnect(network, 0);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.peer_closed(); }));
    EXPECT_EQ(error_of(receiver.completed(receiver.queues.send)), na::status_rdma_protection);
}

TEST_F(Deregistered, ThePlaceOfARead) {
    receiver.post_read(to.part(0, long_bytes), to.handle, from.data.data(), from.handle, 1);
    network.poll(1);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(to.handle);
    const std::vector<std::byte> before = to.data;
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.halted(); }));
    EXPECT_EQ(to.data, before);
    EXPECT_EQ(error_of(receiver.completed(receiver.queues.send)), na::status_protection);
}

/// The second segment can not be sent any more after the first has been put into the packet.
TEST(DeregisteredSegment, SpoilsItsMessageOnly) {
    SimulatedNetwork network(41, options_of(1, na::unreliable));
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    constexpr std::size_t bytes = 250;
    constexpr std::uint64_t messages = 1000;
    Memory from(2'000);
    Memory gone(2'000);
    Memory to((messages + 1) * bytes * 2);
    fill_pattern(from.data, 5);
    const auto address = [](Memory& memory) {
        return reinterpret_cast<std::uint64_t>(memory.data.data());
    };
    post_segments(sender.queues.send, na::Operation::Send,
                  {{address(from), 900, from.handle}, {address(gone), 400, gone.handle}});
    for (std::uint64_t i = 0; i < messages; ++i)
        sender.post_send(from.part(0, bytes), from.handle, static_cast<std::uint32_t>(i), i + 1);
    for (std::uint64_t i = 0; i <= messages; ++i)
        receiver.post_receive(to.part(i * bytes, bytes), to.handle, i);
    SimulatedNetwork::deregister_memory(gone.handle);
    network.faults(0).jitter = 0;
    network.poll(0);
    network.run(200 * millisecond, [] { return false; });
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_protection);
    for (std::uint64_t i = 0; i < messages; ++i)
        ASSERT_EQ(error_of(sender.completed(sender.queues.send)), 0U) << i;
    // Whatever became of the spoilt one, the last of those behind it comes whole.
    std::optional<na::WorkEntry> last;
    while (const auto entry = receiver.completed(receiver.queues.receive))
        last = entry;
    ASSERT_TRUE(last);
    EXPECT_EQ(last->immediate, messages - 1);
    EXPECT_EQ(matching_bytes(to.part(last->cookie * bytes, bytes), 5), bytes);
}

// ---- order --------------------------------------------------------------------------------------

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

// ---- peers that break the rules -----------------------------------------------------------------

class Hostile : public testing::Test {
  protected:
    Hostile() {
        for (std::uint64_t i = 0; i < 4; ++i)
            side.post_receive(to.part(i * 64, 64), to.handle, i);
    }
    /// A piece of a send of 64 bytes.
    static wire::DataFrame send_piece(std::uint32_t message, std::uint32_t receive,
                                      std::uint32_t offset) {
        wire::DataFrame frame;
        frame.message = message;
        frame.receive = receive;
        frame.total = 64;
        frame.offset = offset;
        frame.length = 8;
        return frame;
    }
    static wire::DataFrame whole_send(std::uint32_t message, std::uint32_t receive) {
        wire::DataFrame frame = send_piece(message, receive, 0);
        frame.flags = wire::data_whole;
        frame.total = frame.length;
        return frame;
    }
    bool take(const wire::DataFrame& frame) {
        return side.session.take(frame, std::span(payload).first(frame.length));
    }
    [[nodiscard]] bool violated() const {
        return has_event(side, EndpointEvent::ProtocolViolation) && side.session.halted();
    }

    SimulatedNetwork network{60, options_of(1)};
    Side& side = network.side(1);
    Memory to{4 * 64, ka::right_rdma_read | ka::right_rdma_write};
    std::array<std::byte, 64> payload{};
};

TEST_F(Hostile, TwoMessagesForOneReceive) {
    EXPECT_TRUE(take(send_piece(0, 0, 8)));
    EXPECT_TRUE(take(send_piece(1, 0, 0)));
    for (std::uint32_t offset = 0; offset < 64; offset += 8)
        (void)take(send_piece(0, 0, offset));
    EXPECT_TRUE(side.completed(side.queues.receive));
    (void)take(send_piece(1, 0, 8));  // its receive is gone
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, AMessageForAReceiveThatImmediateDataTakes) {
    EXPECT_TRUE(take(send_piece(1, 0, 0)));
    wire::DataFrame write = whole_send(0, 0);
    write.type = wire::FrameType::RdmaWrite;
    write.flags |= wire::data_immediate;
    write.address = reinterpret_cast<std::uint64_t>(to.data.data());
    write.handle = to.handle;
    EXPECT_TRUE(take(write));
    (void)take(send_piece(1, 0, 8));
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, MoreOperationsThanAgreed) {
    EXPECT_FALSE(take(whole_send(100'000, 0)));
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, AReceiveFarBeyond) {
    EXPECT_FALSE(take(whole_send(1, 1'000'000)));
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, PiecesOfDifferentOperationsUnderOneNumber) {
    EXPECT_TRUE(take(send_piece(0, 0, 0)));
    wire::DataFrame other = send_piece(0, 0, 8);
    other.total = 65;
    EXPECT_FALSE(take(other));
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, DataOfAReadThatNobodyAskedFor) {
    wire::DataFrame data = whole_send(0, 0);
    data.type = wire::FrameType::ReadData;
    EXPECT_FALSE(take(data));
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, MoreReadsThanAgreed) {
    wire::DataFrame read;
    read.type = wire::FrameType::ReadRequest;
    read.total = 64;
    read.address = reinterpret_cast<std::uint64_t>(to.data.data());
    read.handle = to.handle;
    for (read.message = 0; read.message < na::net::Session::most_served_reads; ++read.message)
        ASSERT_TRUE(take(read));
    EXPECT_FALSE(violated());
    (void)take(read);
    EXPECT_TRUE(violated());
}

TEST_F(Hostile, MoreDeliveredThanWasSent) {
    side.session.peer_delivered(1);
    EXPECT_TRUE(violated());
}

/// Pieces of one byte each, none beside another: what is kept of them is bounded.
TEST_F(Hostile, CrumbsOfAMessage) {
    wire::DataFrame crumb;
    crumb.type = wire::FrameType::RdmaWrite;
    crumb.total = 0xFFFFFFFF;
    crumb.length = 1;
    crumb.handle = 1;
    while (crumb.offset < 100'000 && take(crumb))
        crumb.offset += 2;
    EXPECT_LT(crumb.offset, 10'000U);
    EXPECT_FALSE(violated()) << "a path with many losses may do the same";
    crumb.offset = 1;
    EXPECT_TRUE(take(crumb)) << "what closes a gap is taken";
}

/// The end of an RDMA write is held back until all of it has come. It may come twice and cut
/// differently, when it was sent again: then all of it is there too.
TEST(SessionRdma, TheEndOfAWriteMayComeTwiceInOtherPieces) {
    constexpr std::uint32_t total = 61;
    for (std::uint32_t first = 1; first <= 12; ++first)
        for (std::uint32_t second = 1; second <= 12; ++second) {
            SCOPED_TRACE(std::to_string(first) + " bytes, then " + std::to_string(second));
            SimulatedNetwork network(1, {});
            Memory target(total, ka::right_rdma_write);
            std::vector<std::byte> data(total);
            fill_pattern(data, 5);
            const auto take = [&](std::uint32_t begin, std::uint32_t end) {
                wire::DataFrame frame;
                frame.type = wire::FrameType::RdmaWrite;
                frame.length = static_cast<std::uint16_t>(end - begin);
                frame.total = total;
                frame.offset = begin;
                frame.address = reinterpret_cast<std::uint64_t>(target.data.data());
                frame.handle = target.handle;
                EXPECT_TRUE(network.side(1).session.take(
                    frame, std::span(data).subspan(begin, end - begin)));
            };
            take(total - first, total);
            take(total - second, total);
            take(0, total - std::max(first, second));
            ASSERT_EQ(network.side(1).session.delivered(), 1U);
            ASSERT_EQ(target.data, data);
        }
}

}  // namespace
}  // namespace via::test
