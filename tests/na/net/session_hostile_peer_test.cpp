// SPDX-License-Identifier: BSD-3-Clause
// Peers that break the rules: they are found out, and what is kept of them is bounded.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

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

}  // namespace
}  // namespace via::test
