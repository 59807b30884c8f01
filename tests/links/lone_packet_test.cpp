// SPDX-License-Identifier: BSD-3-Clause
#include "links/lone_packet.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "links/train.hpp"
#include "wire/packet_guard.hpp"

namespace via::links {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t datagram_bytes = 1472;
constexpr std::uint64_t number = (1ULL << 32U) + 5;

Bytes joined(std::span<const iovec> parts) {
    Bytes all;
    for (const iovec& part : parts) {
        const auto* from = static_cast<const std::byte*>(part.iov_base);
        all.insert(all.end(), from, from + part.iov_len);
    }
    return all;
}

struct LoneMessage {
    std::uint32_t payload;
    std::uint32_t ranges;  ///< of the acknowledgement; 0: there is none
};

/// Whatever a train makes of a message, it is the same packet.
class LonePacketTest : public testing::TestWithParam<LoneMessage> {
  protected:
    LonePacketTest() {
        for (std::size_t i = 0; i < memory.size(); ++i)
            memory[i] = static_cast<std::byte>(i * 11 + i / 253);
        header.token = 77;
        header.link = 3;
        frame.flags = wire::data_whole;
        frame.length = static_cast<std::uint16_t>(GetParam().payload);
        frame.message = 9;
        frame.receive = 8;
        acknowledgement.ranges = static_cast<std::uint8_t>(GetParam().ranges);
        acknowledgement.largest = 1000;
        for (std::uint32_t i = 0; i < GetParam().ranges; ++i)
            acknowledgement.range[i] = {i + 1, i + 1 < GetParam().ranges ? 2U : 0U};
    }
    template <class Packet>
    void append_acknowledgement(Packet&& packet) const {
        if (GetParam().ranges == 0) return;
        wire::encode(packet.append(wire::AcknowledgementFrame::fixed_bytes +
                                   GetParam().ranges * wire::AcknowledgementFrame::range_bytes),
                     acknowledgement);
    }
    template <class Packet>
    void append_message(Packet& packet) const {
        const std::uint32_t bytes = GetParam().payload;
        const bool copied = bytes <= LonePacket::most_copied;
        std::byte* const at = packet.append(frame_bytes + (copied ? bytes : 0));
        wire::encode(at, frame);
        if (copied)
            std::memcpy(at + frame_bytes, memory.data(), bytes);
        else
            packet.refer(memory.data(), bytes);
    }
    [[nodiscard]] Bytes by_train() const {
        Train made;
        if (GetParam().payload > datagram_bytes)
            made.begin_long(datagram_bytes, Train::most_bytes, guard, header, number);
        else
            made.begin(datagram_bytes, Train::most_bytes, guard, header, number);
        made.open_packet();
        append_acknowledgement(made);
        append_message(made);
        made.finish();
        return joined(made.parts());
    }

    static constexpr std::uint32_t frame_bytes =
        wire::data_frame_header_bytes(wire::FrameType::Send, wire::data_whole);
    const wire::PacketGuard guard{wire::SessionKey{4, 2}, true, false};
    Bytes memory = Bytes(16'384);
    wire::PacketHeader header;
    wire::DataFrame frame;
    wire::AcknowledgementFrame acknowledgement;
};

TEST_P(LonePacketTest, IsWhatATrainMakes) {
    LonePacket packet(Train::most_bytes);
    ASSERT_GE(packet.room(), frame_bytes + GetParam().payload);
    append_message(packet);
    append_acknowledgement(LonePacket::Front(packet));
    wire::PacketHeader numbered = header;
    numbered.number = static_cast<std::uint32_t>(number);
    const auto parts = packet.finish(numbered, guard.seed(), datagram_bytes);
    const Bytes all = joined(parts);
    EXPECT_EQ(packet.bytes(), all.size());
    EXPECT_EQ(parts.size(), GetParam().payload > LonePacket::most_copied ? 2U : 1U);
    EXPECT_TRUE(all == by_train());
}

INSTANTIATE_TEST_SUITE_P(
    Messages, LonePacketTest,
    testing::Values(LoneMessage{0, 0}, LoneMessage{1, 1}, LoneMessage{8, 1}, LoneMessage{8, 0},
                    LoneMessage{8, 16}, LoneMessage{255, 16}, LoneMessage{256, 1},
                    LoneMessage{1200, 0}, LoneMessage{4096, 1}, LoneMessage{8192, 16}),
    [](const auto& tested) {
        return std::to_string(tested.param.payload) + "With" + std::to_string(tested.param.ranges);
    });

TEST(LonePacketRoom, IsWhatTheFrontLeaves) {
    EXPECT_EQ(LonePacket(datagram_bytes).room(), datagram_bytes - LonePacket::most_front);
    EXPECT_EQ(LonePacket(100).room(), 0U) << "a link with short packets";
}

TEST(LonePacketFront, TellsWhenItIsFull) {
    LonePacket packet(datagram_bytes);
    LonePacket::Front front(packet);
    std::uint32_t room = front.room();
    ASSERT_EQ(room,
              LonePacket::most_front - wire::PacketHeader::bytes - wire::LongPacketPrefix::bytes);
    for (; room >= 24; room = front.room()) {
        std::memset(front.append(24), 1, 24);
        ASSERT_EQ(front.room(), room - 24);
    }
    const Bytes payload(packet.room());
    packet.refer(payload.data(), packet.room());
    static_cast<void>(packet.finish({}, 0, datagram_bytes));
    EXPECT_LE(packet.bytes(), datagram_bytes) << "no long packet, whatever is in front";
}

}  // namespace
}  // namespace via::links
