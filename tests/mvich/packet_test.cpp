// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/packet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "mvich/random_packet.hpp"

using namespace via::mvich;
using via::test::bytes_of;
using via::test::Random;
using via::test::random_packet;
using via::test::repeated;

namespace {

using Bytes = std::vector<std::byte>;

/// Decodes a copy that ends where its memory ends, so that a sanitizer sees a read beyond it.
bool readable(const Bytes& bytes) {
    const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), copy.get());
    return decode({copy.get(), bytes.size()}).has_value();
}

void expect_equal(const Packet& one, const Packet& other) {
    EXPECT_EQ(one.head.kind, other.head.kind);
    EXPECT_EQ(one.head.flags, other.head.flags);
    EXPECT_EQ(one.head.credits, other.head.credits);
    EXPECT_EQ(one.head.bytes, other.head.bytes);
    EXPECT_EQ(one.head.word, other.head.word);
    EXPECT_EQ(one.data, other.data);
    EXPECT_EQ(one.id, other.id);
    EXPECT_EQ(one.total, other.total);
    EXPECT_EQ(one.offset, other.offset);
    EXPECT_EQ(one.address, other.address);
    EXPECT_EQ(one.handle, other.handle);
    EXPECT_EQ(one.protocol, other.protocol);
    EXPECT_EQ(one.status, other.status);
    EXPECT_EQ(one.operation, other.operation);
    EXPECT_EQ(one.datatype, other.datatype);
    ASSERT_EQ(one.remote_pieces, other.remote_pieces);
    for (std::size_t i = 0; i < max_remote_pieces; ++i) {
        EXPECT_EQ(one.remote[i].address, other.remote[i].address);
        EXPECT_EQ(one.remote[i].bytes, other.remote[i].bytes);
        EXPECT_EQ(one.remote[i].key, other.remote[i].key);
    }
    EXPECT_TRUE(std::ranges::equal(one.payload, other.payload));
}

Packet packet_of(PacketKind kind, MessageClass message = MessageClass::Message) {
    Packet packet;
    packet.head.kind = static_cast<std::uint8_t>(kind);
    packet.head.flags = static_cast<std::uint8_t>(message);
    if (kind == PacketKind::Request || kind == PacketKind::OkToSend) packet.protocol = Protocol::R3;
    return packet;
}

TEST(MessagePacket, HeadsThatGoApartSayTheSame) {
    std::uint32_t one_word = 0;
    for (std::uint64_t seed = 1; seed <= repeated(20'000); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        PlainEager packet;
        if (random.one_in(2)) packet.message_class = MessageClass::Message;
        packet.credits = static_cast<std::uint16_t>(random.below(most_noted_credits + 1));
        packet.tag = random.next();
        packet.has_data = random.one_in(2);
        if (packet.has_data)
            packet.data = random.one_in(2) ? random.below(most_noted_data + 2) : random.next();
        via::na::HeadedMessage message;
        encode_headed(packet, message);
        one_word += message.head_bytes == 8;
        PlainEager again;
        ASSERT_TRUE(decode_headed(message.note, message.head, message.head_bytes, again));
        ASSERT_EQ(again.message_class, packet.message_class);
        ASSERT_EQ(again.has_data, packet.has_data);
        ASSERT_EQ(again.credits, packet.credits);
        ASSERT_EQ(again.tag, packet.tag);
        ASSERT_EQ(again.data, packet.data);
    }
    EXPECT_GT(one_word, 100U);
}

TEST(MessagePacket, R3DataWithItsHeadApartIsNoMessage) {
    const std::uint64_t head[2] = {1, 2};
    PlainEager packet;
    EXPECT_FALSE(decode_headed(noted_stream, head, 16, packet));
    EXPECT_FALSE(decode_headed(noted_stream, head, 8, packet));
}

}  // namespace

TEST(MessagePacket, WhatIsWrittenIsRead) {
    for (std::uint64_t seed = 1; seed <= repeated(20'000); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Bytes payload;
        const Packet packet = random_packet(random, payload);
        const Bytes bytes = bytes_of(packet);
        const auto back = decode(bytes);
        ASSERT_TRUE(back.has_value())
            << "kind " << int{packet.head.kind} << " flags " << int{packet.head.flags};
        expect_equal(*back, packet);
        ASSERT_EQ(back->payload.data() + back->payload.size(), bytes.data() + bytes.size());
        if (testing::Test::HasFailure()) return;
    }
}

TEST(MessagePacket, NoOtherLengthIsTaken) {
    for (std::uint64_t seed = 1; seed <= repeated(1'000); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Bytes payload;
        Bytes bytes = bytes_of(random_packet(random, payload));
        bytes.push_back(std::byte{0});
        EXPECT_FALSE(readable(bytes));
        bytes.pop_back();
        while (!bytes.empty()) {
            bytes.pop_back();
            ASSERT_FALSE(readable(bytes)) << bytes.size();
        }
    }
}

TEST(MessagePacket, WhatIsReadFromAnyBytesIsWrittenAgainAsItWas) {
    std::uint32_t taken = 0;
    for (std::uint64_t seed = 1; seed <= repeated(50'000); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Bytes payload;
        Bytes bytes = bytes_of(random_packet(random, payload));
        for (std::uint32_t changes = random.between(1, 3); changes != 0; --changes)
            bytes[random.below(
                std::min<std::uint32_t>(48, static_cast<std::uint32_t>(bytes.size())))] =
                static_cast<std::byte>(random.next());
        const auto packet = decode(bytes);
        if (!packet) continue;
        ++taken;
        ASSERT_EQ(bytes_of(*packet), bytes);
    }
    EXPECT_GT(taken, 0U);
}

TEST(MessagePacket, WhatNoPeerWritesIsRefused) {
    ASSERT_TRUE(readable(bytes_of(packet_of(PacketKind::Finish))));
    for (const int kind : {0, 9, 200, 255}) {
        Bytes bytes = bytes_of(packet_of(PacketKind::Finish));
        bytes[0] = static_cast<std::byte>(kind);
        EXPECT_FALSE(readable(bytes)) << "kind " << kind;
    }
    const auto with_flags = [](PacketKind kind, unsigned flags) {
        Packet packet = packet_of(kind);
        packet.head.flags = static_cast<std::uint8_t>(flags);
        return readable(bytes_of(packet));
    };
    EXPECT_TRUE(with_flags(PacketKind::Noop, packet_starving));
    EXPECT_FALSE(with_flags(PacketKind::Noop, packet_has_data));
    EXPECT_FALSE(with_flags(PacketKind::Eager, packet_starving));
    EXPECT_FALSE(with_flags(PacketKind::Eager, 0x80));
    EXPECT_FALSE(with_flags(PacketKind::Data, 1));
    EXPECT_FALSE(with_flags(PacketKind::Word, 0x40));

    const auto with_protocol = [](PacketKind kind, unsigned protocol) {
        Packet packet = packet_of(kind);
        packet.protocol = static_cast<Protocol>(protocol);
        return readable(bytes_of(packet));
    };
    for (const PacketKind kind : {PacketKind::Request, PacketKind::OkToSend}) {
        EXPECT_FALSE(with_protocol(kind, 0));
        EXPECT_TRUE(with_protocol(kind, 1));
        EXPECT_TRUE(with_protocol(kind, 2));
        EXPECT_TRUE(with_protocol(kind, 3));
        EXPECT_FALSE(with_protocol(kind, 4));
        EXPECT_FALSE(with_protocol(kind, 255));
    }

    for (const PacketKind kind : {PacketKind::Finish, PacketKind::Delivered}) {
        Packet packet = packet_of(kind);
        packet.status = Status::Unsupported;
        EXPECT_TRUE(readable(bytes_of(packet)));
        packet.status = static_cast<Status>(7);
        EXPECT_FALSE(readable(bytes_of(packet)));
    }
}

TEST(MessagePacket, PayloadIsTakenOnlyWhereItBelongs) {
    const Bytes payload(3);
    for (const PacketKind kind : {PacketKind::Request, PacketKind::OkToSend, PacketKind::Finish,
                                  PacketKind::Delivered, PacketKind::Noop}) {
        Packet packet = packet_of(kind);
        EXPECT_TRUE(readable(bytes_of(packet))) << static_cast<int>(kind);
        packet.payload = payload;
        EXPECT_FALSE(readable(bytes_of(packet))) << static_cast<int>(kind);
    }
    Packet read = packet_of(PacketKind::Eager, MessageClass::ReadRequest);
    EXPECT_TRUE(readable(bytes_of(read)));
    read.payload = payload;
    EXPECT_FALSE(readable(bytes_of(read)));
}

TEST(MessagePacket, RemotePiecesAreFewAndAddUp) {
    const Bytes payload(30);
    Packet write = packet_of(PacketKind::Eager, MessageClass::Write);
    write.payload = payload;
    write.remote_pieces = 2;
    write.remote[0].bytes = 10;
    write.remote[1].bytes = 20;
    EXPECT_TRUE(readable(bytes_of(write)));
    write.remote[1].bytes = 21;
    EXPECT_FALSE(readable(bytes_of(write)));
    write.remote[1].bytes = 19;
    EXPECT_FALSE(readable(bytes_of(write)));
    write.remote[0].bytes = ~std::uint64_t{0};  // with the other one, 30 again
    write.remote[1].bytes = 31;
    EXPECT_FALSE(readable(bytes_of(write)));

    Packet read = packet_of(PacketKind::Eager, MessageClass::ReadRequest);
    read.remote_pieces = 1;
    read.remote[0].bytes = read.total = std::uint64_t{1} << 40;
    EXPECT_TRUE(readable(bytes_of(read)));
    read.total -= 1;
    EXPECT_FALSE(readable(bytes_of(read)));

    // One piece more than there may be, and as long as it says.
    Packet atomic = packet_of(PacketKind::Eager, MessageClass::Atomic);
    atomic.remote_pieces = max_remote_pieces;
    Bytes bytes = bytes_of(atomic);
    EXPECT_TRUE(readable(bytes));
    constexpr std::size_t count_at = sizeof(PacketHead) + sizeof(OrderId) + 2;
    ASSERT_EQ(bytes[count_at], std::byte{max_remote_pieces});
    bytes[count_at] = std::byte{max_remote_pieces + 1};
    bytes.resize(bytes.size() + sizeof(RemotePiece));
    EXPECT_FALSE(readable(bytes));
}

TEST(MessagePacket, TheShortWayWritesAndReadsTheSame) {
    std::uint32_t taken = 0;
    for (std::uint64_t seed = 1; seed <= repeated(20'000); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Bytes payload;
        Packet packet = random_packet(random, payload);
        if (random.one_in(2)) {
            packet = packet_of(PacketKind::Eager,
                               random.one_in(2) ? MessageClass::Tagged : MessageClass::Message);
            if (random.one_in(2)) {
                packet.head.flags |= packet_has_data;
                packet.data = random.next();
            }
            packet.head.word = random.next();
            packet.head.credits = static_cast<std::uint16_t>(random.next());
            packet.payload = payload;
        }
        Bytes bytes = bytes_of(packet);
        PlainEager eager;
        const bool is_plain = packet.kind() == PacketKind::Eager &&
                              packet.message_class() <= MessageClass::Tagged &&
                              (packet.head.flags & packet_wants_delivered) == 0;
        ASSERT_EQ(decode_plain_eager(bytes, eager), is_plain);
        if (!is_plain) continue;
        ++taken;
        ASSERT_EQ(eager.message_class, packet.message_class());
        ASSERT_EQ(eager.tag, packet.head.word);
        ASSERT_EQ(eager.credits, packet.head.credits);
        ASSERT_EQ(eager.has_data, (packet.head.flags & packet_has_data) != 0);
        ASSERT_EQ(eager.data, packet.data);
        ASSERT_TRUE(std::ranges::equal(eager.payload, packet.payload));
        std::array<std::uint64_t, max_plain_eager_head_bytes / 8> head;
        const std::size_t head_bytes = encode_plain_eager(eager, head);
        ASSERT_EQ(head_bytes, bytes.size() - payload.size());
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(head)).first(head_bytes),
                                       std::span(std::as_const(bytes)).first(head_bytes)));
        bytes.push_back(std::byte{0});
        ASSERT_FALSE(decode_plain_eager(bytes, eager));
        bytes.pop_back();
        bytes.pop_back();
        ASSERT_FALSE(decode_plain_eager(bytes, eager));
        ASSERT_FALSE(decode_plain_eager(std::span(bytes).first(15), eager));
    }
    EXPECT_GT(taken, 100U);
}
