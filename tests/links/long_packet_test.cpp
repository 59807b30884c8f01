// SPDX-License-Identifier: BSD-3-Clause
#include "wire/long_packet.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "links/link.hpp"
#include "links/long_packet_trust.hpp"
#include "links/packet_joiner.hpp"
#include "links/train.hpp"

namespace via::links {
namespace {

constexpr std::uint32_t long_token = 77;
using Datagram = std::vector<std::byte>;

/// A long packet of `bytes`, cut as the kernel does.
std::vector<Datagram> datagrams_of(std::uint32_t bytes, std::size_t datagram_bytes) {
    Datagram all(wire::LongPacketPrefix::bytes + bytes);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::byte>(i * 7 + i / 251);
    wire::encode(all.data(), wire::LongPacketPrefix{long_token, bytes});
    std::vector<Datagram> cut;
    for (std::size_t at = 0; at < all.size(); at += datagram_bytes)
        cut.emplace_back(
            all.begin() + static_cast<std::ptrdiff_t>(at),
            all.begin() + static_cast<std::ptrdiff_t>(std::min(at + datagram_bytes, all.size())));
    return cut;
}

TEST(LongPacketPrefix, IsToldFromAPacketsBeginning) {
    const auto datagrams = datagrams_of(1000, 500);
    EXPECT_TRUE(wire::begins_long_packet(datagrams[0], long_token));
    EXPECT_FALSE(wire::begins_packet(datagrams[0], long_token));
    EXPECT_FALSE(wire::begins_long_packet(datagrams[0], long_token + 1));
    EXPECT_FALSE(wire::begins_long_packet(std::span(datagrams[0]).first(24), long_token));
    const auto prefix = wire::decode_long_packet_prefix(datagrams[0]);
    ASSERT_TRUE(prefix);
    EXPECT_EQ(prefix->token, long_token);
    EXPECT_EQ(prefix->length, 1000U);
}

TEST(LongPacketPrefix, NobodySendsOneThatFitsOrOneThatIsTooLong) {
    Datagram datagram(500);
    for (const auto& [length, good] :
         std::vector<std::pair<std::uint32_t, bool>>{{0, false},
                                                     {491, false},
                                                     {492, false},
                                                     {493, true},
                                                     {65535, true},
                                                     {65536, false},
                                                     {0xFFFFFFFF, false}}) {
        wire::encode(datagram.data(), wire::LongPacketPrefix{long_token, length});
        EXPECT_EQ(wire::decode_long_packet_prefix(datagram).has_value(), good) << length;
    }
}

TEST(PacketJoiner, MakesThePacketAgain) {
    for (const std::uint32_t bytes : {493U, 500U, 992U, 993U, 1491U, 1492U, 1493U, 65'000U}) {
        SCOPED_TRACE(bytes);
        const auto datagrams = datagrams_of(bytes, 500);
        const auto whole = datagrams_of(bytes, 100'000);
        PacketJoiner joiner;
        EXPECT_FALSE(joiner.joining());
        joiner.begin(*wire::decode_long_packet_prefix(datagrams[0]), datagrams[0]);
        for (std::size_t i = 1; i < datagrams.size(); ++i) {
            ASSERT_TRUE(joiner.joining());
            ASSERT_FALSE(joiner.complete());
            ASSERT_TRUE(joiner.add(datagrams[i]));
        }
        ASSERT_TRUE(joiner.complete());
        const auto packet = joiner.take();
        EXPECT_TRUE(std::equal(packet.begin(), packet.end(), whole[0].begin() + 8, whole[0].end()));
        EXPECT_FALSE(joiner.joining());
    }
}

TEST(PacketJoiner, GivesUpWhenALengthIsWrong) {
    const auto datagrams = datagrams_of(1'700, 500);
    PacketJoiner joiner;
    joiner.begin(*wire::decode_long_packet_prefix(datagrams[0]), datagrams[0]);
    EXPECT_TRUE(joiner.add(datagrams[1]));
    // The third is missing: the last one is too short.
    EXPECT_FALSE(joiner.add(datagrams[3]));
    EXPECT_FALSE(joiner.joining());
    joiner.begin(*wire::decode_long_packet_prefix(datagrams[0]), datagrams[0]);
    EXPECT_FALSE(joiner.add(Datagram(501)));
    EXPECT_FALSE(joiner.joining());
}

TEST(LongPacketTrust, OneShowsTheWayForTheOthers) {
    LongPacketTrust trust;
    EXPECT_TRUE(trust.allows());
    trust.sent_long();
    EXPECT_FALSE(trust.allows());
    trust.came(false);
    EXPECT_FALSE(trust.allows());
    trust.came(true);
    EXPECT_TRUE(trust.allows());
    trust.sent_long();
    EXPECT_TRUE(trust.allows());
}

std::uint32_t waits(LongPacketTrust& trust) {
    std::uint32_t packets = 0;
    for (; !trust.allows(); ++packets)
        trust.came(false);
    return packets;
}

TEST(LongPacketTrust, WaitsAfterALossAndLongerEachTime) {
    LongPacketTrust trust;
    trust.lost(false);
    EXPECT_EQ(waits(trust), LongPacketTrust::first_patience);
    std::uint32_t patience = LongPacketTrust::first_patience;
    for (int i = 0; i < 12; ++i) {
        trust.sent_long();
        trust.lost(true);
        trust.lost(true);  // sent with it
        patience = std::min(2 * patience, LongPacketTrust::longest_patience);
        EXPECT_EQ(waits(trust), patience);
    }
    // A loss meanwhile begins it anew.
    trust.lost(false);
    trust.came(false);
    trust.lost(false);
    EXPECT_EQ(waits(trust), patience);
}

TEST(LongPacketTrust, OneThatWasOnlyLateTakesItBack) {
    LongPacketTrust trust;
    trust.sent_long();
    trust.lost(true);
    EXPECT_FALSE(trust.allows());
    trust.came_late();
    EXPECT_TRUE(trust.allows());
    trust.sent_long();
    EXPECT_TRUE(trust.allows());
    // And the patience it cost.
    trust.lost(false);
    EXPECT_EQ(waits(trust), LongPacketTrust::first_patience);
}

TEST(LongPacketTrust, ForgivesWhenManyHaveCome) {
    LongPacketTrust trust;
    for (int i = 0; i < 5; ++i) {
        trust.lost(true);
        (void)waits(trust);
        trust.sent_long();
    }
    for (std::uint32_t i = 0; i < LongPacketTrust::forgiven_after; ++i)
        trust.came(true);
    trust.lost(true);
    EXPECT_EQ(waits(trust), LongPacketTrust::first_patience);
}

TEST(Link, CarriesLongPacketsUntilOneIsLost) {
    Link link(0, {}, 1'000);
    link.enter(LinkState::Up, 1'000);
    ASSERT_NE(link.longest_packet(), 0U);
    link.sent_long(60'000, {0, 0, 0, 60'000}, 2'000);
    EXPECT_EQ(link.in_flight(), 60'000U);
    EXPECT_EQ(link.counters().sent_packets, 1U);
    EXPECT_EQ(link.counters().sent_long_packets, 1U);
    EXPECT_EQ(link.longest_packet(), 0U);
    link.acknowledged(0, 1, 50'000, 0);
    EXPECT_NE(link.longest_packet(), 0U);
    link.sent_long(60'000, {0, 0, 60'000, 120'000}, 60'000);
    std::size_t lost = 0;
    link.lose_all([&](const Span& span) { lost += span.end - span.begin; });
    EXPECT_EQ(lost, 60'000U);
    EXPECT_EQ(link.longest_packet(), 0U);
    link.acknowledged(1, 2, 70'000, 0);  // it was only late
    EXPECT_NE(link.longest_packet(), 0U);
}

TEST(Link, CarriesNoLongPacketsWhereTheyMayNotBe) {
    LinkLimits limits;
    limits.long_packets = false;
    EXPECT_EQ(Link(0, limits, 0).longest_packet(), 0U);
    limits.long_packets = true;
    limits.short_only = true;
    EXPECT_EQ(Link(0, limits, 0).longest_packet(), 0U);
}

struct LongTrain {
    explicit LongTrain(std::uint32_t limit) {
        for (std::size_t i = 0; i < memory.size(); ++i)
            memory[i] = static_cast<std::byte>(i * 5 + i / 253);
        wire::PacketHeader header;
        header.token = long_token;
        train.begin_long(1'400, limit, requester, header, 5);
        train.open_packet();
    }
    [[nodiscard]] Datagram bytes() const {
        Datagram all;
        for (const iovec& part : train.parts()) {
            const auto* from = static_cast<const std::byte*>(part.iov_base);
            all.insert(all.end(), from, from + part.iov_len);
        }
        return all;
    }
    wire::PacketGuard requester{wire::SessionKey{1, 2}, true, false};
    wire::PacketGuard acceptor{wire::SessionKey{1, 2}, false, false};
    Train train;
    Datagram memory = Datagram(100'000);
};

TEST(Train, OfOneLongPacketFillsItsDatagrams) {
    LongTrain one(30'000);
    const std::uint32_t room = one.train.room();
    EXPECT_EQ(room, 21 * 1'400 - wire::LongPacketPrefix::bytes - wire::PacketHeader::bytes);
    one.train.refer(one.memory.data(), room);
    EXPECT_FALSE(one.train.has_room());
    one.train.finish();
    EXPECT_TRUE(one.train.is_long());
    EXPECT_EQ(one.train.bytes(), 21U * 1'400);
    const Datagram bytes = one.bytes();
    ASSERT_EQ(bytes.size(), 21U * 1'400);
    const auto prefix = wire::decode_long_packet_prefix(std::span(bytes).first(1'400));
    ASSERT_TRUE(prefix);
    EXPECT_EQ(prefix->token, long_token);
    ASSERT_EQ(prefix->length, bytes.size() - wire::LongPacketPrefix::bytes);
    const auto packet = std::span<const std::byte>(bytes).subspan(wire::LongPacketPrefix::bytes);
    const auto header = wire::decode_packet_header(packet.data());
    EXPECT_EQ(header.token, long_token);
    std::vector<std::byte> opened;
    const auto body = one.acceptor.open(header, 5, packet, opened);
    ASSERT_TRUE(body);
    EXPECT_TRUE(std::equal(body->begin(), body->end(), one.memory.begin()));
}

TEST(Train, WhatFitsIntoADatagramIsNoLongPacket) {
    for (const std::uint32_t bytes : {10U, 1'000U, 1'400U - wire::PacketHeader::bytes}) {
        LongTrain one(30'000);
        one.train.refer(one.memory.data(), bytes);
        one.train.finish();
        EXPECT_FALSE(one.train.is_long());
        const Datagram all = one.bytes();
        ASSERT_EQ(all.size(), wire::PacketHeader::bytes + bytes);
        EXPECT_EQ(one.train.bytes(), all.size());
        const auto header = wire::decode_packet_header(all.data());
        EXPECT_EQ(header.token, long_token);
        std::vector<std::byte> opened;
        EXPECT_TRUE(one.acceptor.open(header, 5, all, opened));
    }
    // One byte more, and it is.
    LongTrain one(30'000);
    one.train.refer(one.memory.data(), 1'401U - wire::PacketHeader::bytes);
    one.train.finish();
    EXPECT_TRUE(one.train.is_long());
    EXPECT_EQ(one.bytes().size(), 1'401U + wire::LongPacketPrefix::bytes);
}

}  // namespace
}  // namespace via::links
