// SPDX-License-Identifier: BSD-3-Clause
// Peers that do not keep to the protocol: their connection ends, and nothing else.
#include "mvich/hostile_peer.hpp"

#include <gtest/gtest.h>

#include "na/seeded.hpp"

namespace via::test {
namespace {

/// The first orders of a conversation.
constexpr OrderId first_send = std::uint64_t{1} << 32;
constexpr OrderId first_receive = receive_id_bit | first_send;

class HostilePeerTest : public testing::TestWithParam<bool> {
  protected:
    /// In place, with memory that both ends can reach, or in vbufs; with automatic protocols.
    HostilePeerTest() : shape_(GetParam() ? 3 : 0), script_(&shape_, 1), peer_(script_) {}

    void arrive(PacketKind kind, std::uint64_t word, std::uint32_t bytes = 0) {
        Packet packet;
        packet.head.kind = static_cast<std::uint8_t>(kind);
        packet.head.word = word;
        packet.head.bytes = bytes;
        peer_.arrive(packet);
    }
    void request(MessageClass message, std::uint64_t word, std::uint64_t total, Protocol protocol,
                 OrderId id = 9) {
        Packet packet;
        packet.head.kind = static_cast<std::uint8_t>(PacketKind::Request);
        packet.head.flags = static_cast<std::uint8_t>(message);
        packet.head.word = word;
        packet.head.credits = 4;
        packet.id = id;
        packet.total = total;
        packet.protocol = protocol;
        peer_.arrive(packet);
    }

    std::uint8_t shape_;
    Script script_;
    HostilePeer peer_;
};

TEST_P(HostilePeerTest, DataForAMessageThatIsReadByRdmaBreaks) {
    peer_.post_receive(2000, 1, false, Space::Tagged);
    request(MessageClass::Tagged, 1, 2000, Protocol::Rget);
    peer_.conversation().flush();
    ASSERT_FALSE(peer_.is_over());
    arrive(PacketKind::Data, first_receive, 700);
    EXPECT_TRUE(peer_.is_over());
    ASSERT_EQ(peer_.heard().size(), 1U);
    EXPECT_EQ(peer_.heard()[0].status, Status::PeerLost);
}

TEST_P(HostilePeerTest, AMessageThatBothMoveIsThereWhenBothAreDone) {
    peer_.post_receive(2000, 1, false, Space::Tagged);
    request(MessageClass::Tagged, 1, 2000, Protocol::Rget);
    peer_.conversation().flush();
    if (!GetParam()) {
        // Between hosts there is nothing that the sender was asked for.
        arrive(PacketKind::Finish, first_receive);
        EXPECT_TRUE(peer_.is_over());
        return;
    }
    peer_.finish_transfers();
    EXPECT_TRUE(peer_.heard().empty());
    arrive(PacketKind::Finish, first_receive);
    ASSERT_EQ(peer_.heard().size(), 1U);
    EXPECT_EQ(peer_.heard()[0].status, Status::Ok);
    EXPECT_EQ(peer_.heard()[0].length, 2000U);
    ASSERT_FALSE(peer_.is_over());
    arrive(PacketKind::Finish, first_receive);
    EXPECT_TRUE(peer_.is_over());
}

TEST_P(HostilePeerTest, APartIsAskedForOnce) {
    peer_.order_send(2000, 0);
    peer_.conversation().flush();
    Packet ask;
    ask.head.kind = static_cast<std::uint8_t>(PacketKind::OkToSend);
    ask.head.word = first_send;
    ask.id = 77;
    ask.total = 960;
    ask.protocol = Protocol::Rget;
    peer_.arrive(ask);
    if (!GetParam()) {
        // Between hosts the message was not offered for reading.
        EXPECT_TRUE(peer_.is_over());
        return;
    }
    peer_.conversation().flush();
    ASSERT_FALSE(peer_.is_over());
    // It has read its part; ours is not written yet.
    arrive(PacketKind::Finish, first_send);
    EXPECT_TRUE(peer_.heard().empty());
    peer_.finish_transfers();
    ASSERT_EQ(peer_.heard().size(), 1U);
    EXPECT_EQ(peer_.heard()[0].status, Status::Ok);
    ASSERT_FALSE(peer_.is_over());
    peer_.arrive(ask);
    EXPECT_TRUE(peer_.is_over());
}

TEST_P(HostilePeerTest, AReadIsNotDoneWithoutItsData) {
    peer_.order_read(600);
    peer_.conversation().flush();
    arrive(PacketKind::Delivered, first_send);
    EXPECT_TRUE(peer_.is_over());
    ASSERT_EQ(peer_.heard().size(), 1U);
    EXPECT_EQ(peer_.heard()[0].status, Status::PeerLost);
}

TEST_P(HostilePeerTest, AReadIsAnsweredOnce) {
    peer_.order_read(2000);
    peer_.conversation().flush();
    request(MessageClass::ReadReply, first_send, 2000, Protocol::R3);
    ASSERT_FALSE(peer_.is_over());
    request(MessageClass::ReadReply, first_send, 2000, Protocol::R3, 10);
    EXPECT_TRUE(peer_.is_over());
}

TEST_P(HostilePeerTest, MoreThanTheWindowBreaksAndKeepsNoReceive) {
    for (int i = 0; i < 100 && !peer_.is_over(); ++i) {
        Packet packet;
        packet.head.kind = static_cast<std::uint8_t>(PacketKind::Eager);
        packet.head.flags = static_cast<std::uint8_t>(MessageClass::Tagged);
        packet.head.word = 1;
        packet.head.bytes = 100;
        // The last one in the window finds a receive, the one behind it must not.
        if (i == 14) peer_.post_receive(100, 1, false, Space::Tagged);
        peer_.arrive(packet);
    }
    EXPECT_TRUE(peer_.is_over());  // and it has looked at what stays
}

TEST_P(HostilePeerTest, EnvelopesWithoutEndBreak) {
    std::uint64_t sent = 0;
    for (; sent < 3'000'000 && !peer_.is_over(); ++sent) {
        request(MessageClass::Tagged, 3, 100'000, Protocol::R3, sent + 1);
        peer_.conversation().flush();  // tells of credits
    }
    EXPECT_TRUE(peer_.is_over());
    EXPECT_GE(sent, 1'000'000U);  // a program with so many open orders is not hostile yet
}

INSTANTIATE_TEST_SUITE_P(Places, HostilePeerTest, testing::Bool(), [](const auto& place) {
    return place.param ? std::string("Frames") : std::string("Vbufs");
});

TEST(HostileScriptTest, AnyPacketsInAnyOrder) {
    std::uint64_t broken = 0;
    for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
        Random random(seed);
        std::vector<std::uint8_t> bytes(100 + random.below(900));
        for (std::uint8_t& byte : bytes)
            byte = static_cast<std::uint8_t>(random.next());
        bytes[0] &= 0x7F;  // the peer has said Hello
        Script script(bytes.data(), bytes.size());
        HostilePeer peer(script);
        while (peer.step()) {
        }
        broken += peer.is_over() ? 1 : 0;
        peer.end();
    }
    EXPECT_GT(broken, 1000U);
}

}  // namespace
}  // namespace via::test
