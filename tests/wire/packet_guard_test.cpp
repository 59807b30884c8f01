// SPDX-License-Identifier: BSD-3-Clause
#include "wire/packet_guard.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using namespace via::wire;

namespace {

SessionKey key_of(std::uint8_t seed) {
    SessionKey key;
    for (std::size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<std::uint8_t>(seed + i * 7);
    return key;
}

constexpr std::uint64_t number = 0x123456789A;
constexpr std::size_t frame_bytes = 100;

PacketHeader header_of(const PacketGuard& guard) {
    PacketHeader header;
    header.token = 0x11223344;
    header.number = static_cast<std::uint32_t>(number);
    header.link = 2;
    header.flags = guard.sealed() ? packet_sealed : std::uint8_t{0};
    return header;
}

std::byte frame_byte(std::size_t i) {
    return static_cast<std::byte>(i * 31 + 5);
}

std::vector<std::byte> protected_packet(const PacketGuard& guard, std::uint64_t whole = number) {
    std::vector<std::byte> packet(PacketHeader::bytes + frame_bytes + guard.overhead());
    const PacketHeader header = header_of(guard);
    encode(packet.data(), header);
    for (std::size_t i = 0; i < frame_bytes; ++i)
        packet[PacketHeader::bytes + i] = frame_byte(i);
    const iovec part{packet.data(), packet.size()};
    guard.protect(header, whole, {&part, 1});
    return packet;
}

bool opens(const PacketGuard& guard, std::span<const std::byte> packet,
           std::uint64_t whole = number) {
    std::vector<std::byte> opened;
    const auto frames = guard.open(decode_packet_header(packet.data()), whole, packet, opened);
    if (!frames) return false;
    if (frames->size() != frame_bytes) return false;
    for (std::size_t i = 0; i < frame_bytes; ++i)
        if ((*frames)[i] != frame_byte(i)) return false;
    return true;
}

class Guard : public testing::TestWithParam<bool> {
  protected:
    const PacketGuard requester{key_of(1), true, GetParam()};
    const PacketGuard acceptor{key_of(1), false, GetParam()};
};

TEST_P(Guard, TheOtherEndOpensIt) {
    EXPECT_TRUE(opens(acceptor, protected_packet(requester)));
    EXPECT_TRUE(opens(requester, protected_packet(acceptor)));
}

TEST_P(Guard, AnotherKeyDoesNot) {
    EXPECT_FALSE(opens(PacketGuard(key_of(2), false, GetParam()), protected_packet(requester)));
}

TEST_P(Guard, NoDirectionOpensItsOwnPackets) {
    EXPECT_FALSE(opens(requester, protected_packet(requester)));
    EXPECT_FALSE(opens(acceptor, protected_packet(acceptor)));
}

TEST_P(Guard, TheOtherModeDoesNot) {
    EXPECT_FALSE(opens(PacketGuard(key_of(1), false, !GetParam()), protected_packet(requester)));
}

TEST_P(Guard, EveryFlippedBitIsNoticed) {
    const std::vector<std::byte> packet = protected_packet(requester);
    for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
        // A plain packet's token is not under the checksum: the receiver compares it.
        if (!GetParam() && bit < 32) continue;
        std::vector<std::byte> damaged = packet;
        damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        EXPECT_FALSE(opens(acceptor, damaged)) << "bit " << bit;
    }
}

TEST_P(Guard, EveryTruncationIsNoticed) {
    const std::vector<std::byte> packet = protected_packet(requester);
    for (std::size_t length = PacketHeader::bytes; length < packet.size(); ++length)
        EXPECT_FALSE(opens(acceptor, std::span(packet).first(length))) << length;
}

TEST_P(Guard, AWrongNumberInTheHeaderIsNoticed) {
    std::vector<std::byte> packet = protected_packet(requester);
    store(packet.data() + 8, static_cast<std::uint32_t>(number) + 1);
    EXPECT_FALSE(opens(acceptor, packet, number + 1));
}

INSTANTIATE_TEST_SUITE_P(Packet, Guard, testing::Values(false, true),
                         [](const auto& param) { return param.param ? "Sealed" : "Checksum"; });

/// Some of the frames' bytes are the payload; what is before and behind it counts as well.
TEST(PlainPacket, OpensToAPlace) {
    const PacketGuard requester(key_of(1), true, false);
    const PacketGuard acceptor(key_of(1), false, false);
    const std::vector<std::byte> packet = protected_packet(requester);
    constexpr std::size_t at = PacketHeader::bytes + 24;
    constexpr std::size_t payload_bytes = frame_bytes - 24 - 5;
    const auto opens_to = [&](const PacketGuard& guard, std::span<const std::byte> one,
                              std::vector<std::byte>& place) {
        place.assign(payload_bytes, std::byte{0});
        return guard.open_to(decode_packet_header(one.data()), one, one.subspan(at, payload_bytes),
                             place.data());
    };
    std::vector<std::byte> place;
    ASSERT_TRUE(opens_to(acceptor, packet, place));
    for (std::size_t i = 0; i < payload_bytes; ++i)
        ASSERT_EQ(place[i], frame_byte(24 + i)) << i;
    for (std::size_t bit = 32; bit < packet.size() * 8; ++bit) {
        std::vector<std::byte> damaged = packet;
        damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        ASSERT_FALSE(opens_to(acceptor, damaged, place)) << "bit " << bit;
    }
    EXPECT_FALSE(opens_to(PacketGuard(key_of(2), false, false), packet, place));
    EXPECT_FALSE(opens_to(PacketGuard(key_of(1), false, true), packet, place));
}

TEST(PlainPacket, ProtectingInPartsIsTheSame) {
    const PacketGuard requester(key_of(1), true, false);
    const std::vector<std::byte> whole = protected_packet(requester);
    std::vector<std::byte> packet = whole;
    std::memset(packet.data() + 4, 0, 4);
    const std::array<iovec, 3> parts{iovec{packet.data(), 20}, iovec{packet.data() + 20, 1},
                                     iovec{packet.data() + 21, packet.size() - 21}};
    requester.protect(header_of(requester), number, parts);
    EXPECT_EQ(packet, whole);
}

TEST(SealedPacket, TheHighHalfOfTheNumberIsPartOfTheNonce) {
    const PacketGuard requester(key_of(1), true, true);
    const PacketGuard acceptor(key_of(1), false, true);
    const std::vector<std::byte> packet = protected_packet(requester);
    EXPECT_TRUE(opens(acceptor, packet));
    EXPECT_FALSE(opens(acceptor, packet, number + (std::uint64_t{1} << 32)));
}

TEST(SealedPacket, TheFramesCanNotBeReadFromIt) {
    const PacketGuard requester(key_of(1), true, true);
    const std::vector<std::byte> packet = protected_packet(requester);
    std::size_t same = 0;
    for (std::size_t i = 0; i < frame_bytes; ++i)
        if (packet[PacketHeader::bytes + i] == frame_byte(i)) ++same;
    EXPECT_LT(same, frame_bytes / 4);
}

}  // namespace
