// SPDX-License-Identifier: BSD-3-Clause
// Where payload may go before it is known to be genuine: only where nothing is lost by it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

/// A message of four pieces, of which side 1 has the first one.
class EarlyPlace : public testing::Test {
  protected:
    static constexpr std::uint32_t piece_bytes = 10'000;
    static constexpr std::uint32_t bytes = 4 * piece_bytes;

    explicit EarlyPlace(std::uint32_t reliability = na::reliable_delivery)
        : network(61, options_of(1, reliability)) {}

    [[nodiscard]] wire::DataFrame piece(std::uint32_t index) const {
        wire::DataFrame frame;
        frame.total = bytes;
        frame.offset = index * piece_bytes;
        frame.length = piece_bytes;
        return frame;
    }
    [[nodiscard]] wire::DataFrame write_piece(std::uint32_t index) {
        wire::DataFrame frame = piece(index);
        frame.type = wire::FrameType::RdmaWrite;
        frame.address = reinterpret_cast<std::uint64_t>(to.data.data());
        frame.handle = to.handle;
        return frame;
    }
    bool take(const wire::DataFrame& frame) {
        return side.session.take(frame, std::span(payload).first(frame.length));
    }
    void begin_message() {
        side.post_receive(to.part(0, bytes), to.handle, 1);
        ASSERT_TRUE(take(piece(0)));
    }
    [[nodiscard]] std::byte* place_of(const wire::DataFrame& frame) {
        return side.session.early_place(frame);
    }
    [[nodiscard]] std::byte* piece_of_memory(std::uint32_t index) {
        return to.data.data() + std::size_t{index} * piece_bytes;
    }

    SimulatedNetwork network;
    Side& side = network.side(1);
    Memory to{bytes, ka::right_rdma_write};
    std::vector<std::byte> payload = std::vector<std::byte>(piece_bytes, std::byte{7});
};

TEST_F(EarlyPlace, IsThatOfTheNextPiece) {
    begin_message();
    EXPECT_EQ(place_of(piece(1)), piece_of_memory(1));
    ASSERT_TRUE(take(piece(1)));
    EXPECT_EQ(place_of(piece(2)), piece_of_memory(2));
}

TEST_F(EarlyPlace, WhatLiesThereAlreadyIsTaken) {
    begin_message();
    for (std::uint32_t i = 1; i < 4; ++i) {
        std::byte* const place = place_of(piece(i));
        ASSERT_NE(place, nullptr);
        std::fill_n(place, piece_bytes, static_cast<std::byte>(i));
        ASSERT_TRUE(side.session.take(piece(i), {place, piece_bytes}));
    }
    const auto entry = side.completed(side.queues.receive);
    ASSERT_EQ(error_of(entry), 0U);
    EXPECT_EQ(*piece_of_memory(3), std::byte{3});
    EXPECT_EQ(to.data.back(), std::byte{3});
}

TEST_F(EarlyPlace, IsNowhereBeforeTheMessageHasBegun) {
    side.post_receive(to.part(0, bytes), to.handle, 1);
    EXPECT_EQ(place_of(piece(0)), nullptr);
    begin_message();
    wire::DataFrame next = piece(0);
    next.message = 1;
    next.receive = 1;
    EXPECT_EQ(place_of(next), nullptr);
}

TEST_F(EarlyPlace, IsNowhereForWhatHasCome) {
    begin_message();
    EXPECT_EQ(place_of(piece(0)), nullptr);
    wire::DataFrame overlapping = piece(1);
    overlapping.offset -= 1;
    EXPECT_EQ(place_of(overlapping), nullptr);
    ASSERT_TRUE(take(piece(2)));
    EXPECT_EQ(place_of(piece(1)), piece_of_memory(1));
    wire::DataFrame longer = piece(1);
    longer.length += 1;
    EXPECT_EQ(place_of(longer), nullptr) << "its last byte has come";
}

TEST_F(EarlyPlace, IsNowhereBehindAGap) {
    begin_message();
    EXPECT_EQ(place_of(piece(2)), nullptr);
}

TEST_F(EarlyPlace, IsNowhereForWhatSaysSomethingElseOfTheMessage) {
    begin_message();
    wire::DataFrame longer = piece(1);
    longer.total += 1;
    EXPECT_EQ(place_of(longer), nullptr);
    EXPECT_EQ(place_of(write_piece(1)), nullptr);
}

TEST_F(EarlyPlace, IsNowhereWhenTheMemoryIsNotRegisteredAnyMore) {
    begin_message();
    SimulatedNetwork::deregister_memory(to.handle);
    EXPECT_EQ(place_of(piece(1)), nullptr);
}

TEST_F(EarlyPlace, IsNowhereWhenTheProgramHasLeft) {
    begin_message();
    side.session.detach();
    EXPECT_EQ(place_of(piece(1)), nullptr);
}

TEST_F(EarlyPlace, IsNowhereWhereThereAreSeveralSegments) {
    post_segments(
        side.queues.receive, na::Operation::Receive,
        {na::PhysicalDescriptor{reinterpret_cast<std::uint64_t>(to.data.data()), bytes / 2,
                                to.handle},
         na::PhysicalDescriptor{reinterpret_cast<std::uint64_t>(to.data.data() + bytes / 2),
                                bytes / 2, to.handle}});
    ASSERT_TRUE(take(piece(0)));
    EXPECT_EQ(place_of(piece(1)), nullptr);
}

TEST_F(EarlyPlace, OfAWriteIsWhereItsBeginningSaid) {
    ASSERT_TRUE(take(write_piece(0)));
    wire::DataFrame frame = write_piece(1);
    EXPECT_EQ(place_of(frame), piece_of_memory(1));
    frame.address += 64;  // nobody believes that
    EXPECT_EQ(place_of(frame), piece_of_memory(1));
}

/// A program that looks at the last word knows that all has come.
TEST_F(EarlyPlace, NeverHasTheLastBytesOfAWrite) {
    for (std::uint32_t i = 0; i < 3; ++i)
        ASSERT_TRUE(take(write_piece(i)));
    EXPECT_EQ(place_of(write_piece(3)), nullptr);
}

TEST_F(EarlyPlace, OfAWriteThatIsNotAllowedIsNowhere) {
    Memory others(bytes);
    wire::DataFrame frame = write_piece(0);
    frame.address = reinterpret_cast<std::uint64_t>(others.data.data());
    frame.handle = others.handle;
    ASSERT_TRUE(take(frame));
    frame.offset = piece_bytes;
    EXPECT_EQ(place_of(frame), nullptr);
}

class EarlyPlaceUnreliable : public EarlyPlace {
  protected:
    EarlyPlaceUnreliable() : EarlyPlace(na::unreliable) {}
};

TEST_F(EarlyPlaceUnreliable, IsNowhere) {
    begin_message();
    EXPECT_EQ(place_of(piece(1)), nullptr);
}

/// All the way, by packets that are as long as a loopback interface takes them.
TEST(EarlyPlaces, ADamagedPacketHarmsNothing) {
    constexpr std::size_t bytes = 300'000;
    NetworkOptions options = options_of(1);
    options.packet_bytes = 60'000;
    options.faults.jitter = 0;
    SimulatedNetwork network(62, options);
    Memory from(bytes);
    Memory to(bytes);
    fill_pattern(from.data, 4);
    network.run(20 * millisecond, [] { return false; });  // the link is up

    std::vector<std::vector<std::byte>> swallowed;
    network.swallows = [&](std::size_t side, std::size_t, std::span<const std::byte> packet) {
        if (side != 0 || packet.size() < 8192) return false;
        swallowed.emplace_back(packet.begin(), packet.end());
        return true;
    };
    Side& receiver = network.side(1);
    receiver.post_receive(to.part(0, bytes), to.handle, 1);
    network.side(0).post_send(from.part(0, bytes), from.handle, std::nullopt, 2);
    network.poll(0);
    ASSERT_GE(swallowed.size(), 2U);
    const auto comes = [&](std::span<const std::byte> packet) {
        (void)receiver.transport.receive(0, packet, packet.size(), network.now());
    };
    comes(swallowed[0]);
    std::vector<std::byte> damaged = swallowed[1];
    wire::FrameReader reader(
        std::span<const std::byte>(damaged).subspan(wire::PacketHeader::bytes));
    wire::DataFrame frame;
    std::span<const std::byte> payload;
    ASSERT_TRUE(reader.take(frame, payload));
    ASSERT_GT(frame.offset, 0U);
    damaged.back() ^= std::byte{1};
    comes(damaged);
    EXPECT_EQ(receiver.transport.damaged_packets(), 1U);
    if (wire::crc32c_copies()) {
        EXPECT_EQ(to.data[frame.offset + frame.length - 1U], payload.back()) << "written early";
    }
    EXPECT_TRUE(std::all_of(to.data.begin() + frame.offset + frame.length, to.data.end(),
                            [](std::byte one) { return one == std::byte{0}; }));

    network.swallows = nullptr;
    std::optional<na::WorkEntry> entry;
    EXPECT_TRUE(network.run(1'000 * millisecond, [&] {
        entry = receiver.completed(receiver.queues.receive);
        return entry.has_value();
    }));
    EXPECT_EQ(error_of(entry), 0U);
    EXPECT_EQ(matching_bytes(to.data, 4), bytes);
}

}  // namespace
}  // namespace via::test
