// SPDX-License-Identifier: BSD-3-Clause
// Messages shown in place, and messages gathered from pieces.
#include "na/shm/noting_sink.hpp"
#include "na/shm/shm_pair.hpp"

namespace {

using namespace via;
using namespace via::test;

constexpr std::uint32_t in_frame = na::shm::max_inline_bytes;

/// `b` shows what comes to a sink.
class ShmSink : public ShmPair {
  protected:
    void SetUp() override {
        b.queues.sink = &sink;
        ShmPair::SetUp();
    }

    [[nodiscard]] bool gathers() const { return !reception(); }
    /// The longest message that is one chunk when it is posted.
    [[nodiscard]] std::uint32_t chunk() {
        return std::min({settings().chunk_bytes, settings().geometry.ring_bytes() / 4,
                         settings().single_copy_bytes - 1});
    }
    /// One packet of these pieces, filled with the stream.
    [[nodiscard]] bool gather(const std::vector<std::uint32_t>& lengths, std::uint64_t stream) {
        std::vector<std::vector<std::byte>> memory;
        std::vector<iovec> pieces;
        std::uint32_t bytes = 0;
        for (const std::uint32_t length : lengths) {
            auto& piece = memory.emplace_back(length);
            fill_pattern(piece, stream, bytes);
            pieces.push_back({piece.data(), length});
            bytes += length;
        }
        return a.endpoint->send_gathered(pieces, bytes);
    }
    void expect_message(std::uint32_t bytes, std::uint64_t stream) {
        ASSERT_FALSE(sink.messages.empty());
        const NotingSink::Message message = std::move(sink.messages.front());
        sink.messages.erase(sink.messages.begin());
        ASSERT_EQ(message.bytes.size(), bytes);
        EXPECT_EQ(matching_bytes(message.bytes, stream), bytes);
    }

    NotingSink sink;
};

TEST_P(ShmSink, SeesPostedMessagesThatLieInOnePiece) {
    EXPECT_TRUE(b.endpoint->shows_frames());
    EXPECT_FALSE(a.endpoint->shows_frames());
    const TestMemory source(left, chunk());
    std::uint64_t bytes_sent = 0;
    int seen = 0;
    for (const std::uint32_t bytes : {0U, 1U, 7U, 8U, 9U, in_frame, in_frame + 1, 200U, chunk()}) {
        SCOPED_TRACE(bytes);
        fill_pattern(source.span(), bytes);
        a.post_send(bytes == 0 ? Pieces{} : Pieces{source.pd(0, bytes)}, {.immediate = bytes});
        EXPECT_TRUE(b.poll());
        ASSERT_EQ(sink.messages.size(), 1U);
        EXPECT_TRUE(sink.messages[0].has_immediate);
        EXPECT_EQ(sink.messages[0].immediate, bytes);
        expect_message(bytes, bytes);
        EXPECT_FALSE(b.poll());
        bytes_sent += bytes;
        ++seen;
    }
    EXPECT_EQ(sink.shown, seen);
    EXPECT_EQ(b.counters.received_bytes.get(), bytes_sent);
    ASSERT_TRUE(drive(a, b));
    for (int i = 0; i < seen; ++i) {
        const auto sent = a.send_done();
        ASSERT_TRUE(sent) << "at every level the sender hears of it";
        EXPECT_EQ(sent->errors(), 0U);
    }
    EXPECT_EQ(a.take_events() | b.take_events(), 0U);
}

TEST_P(ShmSink, SeesGatheredMessagesOfEveryLength) {
    if (!gathers()) {
        EXPECT_EQ(a.endpoint->longest_gathered(), 0U);
        EXPECT_FALSE(gather({8}, 1));
        EXPECT_FALSE(b.poll());
        return;
    }
    const std::uint32_t longest = a.endpoint->longest_gathered();
    EXPECT_EQ(longest,
              std::min({settings().geometry.ring_bytes() / 4,
                        na::shm::ChannelWriter::ring_bytes_of_all / 4, na::shm::max_chunk_bytes}));
    Random random(7);
    std::vector<std::uint32_t> lengths;
    for (std::uint32_t bytes = 0; bytes <= 300; ++bytes)
        lengths.push_back(bytes);
    for (std::uint32_t bytes = 512; bytes < longest; bytes = bytes * 3 / 2)
        lengths.push_back(bytes + random.below(100) % (longest - bytes));
    lengths.push_back(longest);
    std::uint64_t stream = 0;
    for (const std::uint32_t bytes : lengths) {
        SCOPED_TRACE(bytes);
        for (const std::uint32_t count : {1U, 2U, 5U}) {
            std::vector<std::uint32_t> pieces;
            std::uint32_t left_over = bytes;
            for (std::uint32_t i = 1; i < count; ++i) {
                pieces.push_back(i == 1 ? std::min(left_over, 16U) : random.below(left_over + 1));
                left_over -= pieces.back();
            }
            pieces.push_back(left_over);
            // What was read is told to the sender late: when the receiver finds nothing.
            bool sent = gather(pieces, ++stream);
            for (int i = 0; i < 200 && !sent; ++i) {
                b.poll();
                sent = gather(pieces, stream);
            }
            ASSERT_TRUE(sent);
            ASSERT_TRUE(b.poll());
            expect_message(bytes, stream);
        }
    }
    EXPECT_FALSE(gather({longest + 1}, 1)) << "that never fits";
    EXPECT_FALSE(b.poll());
    EXPECT_TRUE(a.queues.send.empty());
    EXPECT_EQ(a.take_events() | b.take_events(), 0U);
}

TEST_P(ShmSink, SeesHeadsApart) {
    na::HeadedMessage message;
    if (!gathers()) {
        EXPECT_FALSE(a.endpoint->send_headed(message));
        EXPECT_FALSE(b.poll());
        return;
    }
    const std::uint32_t longest = a.endpoint->longest_gathered();
    std::vector<std::byte> payload(longest);
    Random random(11);
    for (std::uint32_t bytes = 0; bytes <= longest; bytes = bytes < 200 ? bytes + 1 : bytes * 2)
        for (const std::uint32_t head_bytes : {8U, 16U}) {
            SCOPED_TRACE(bytes);
            message.note = static_cast<std::uint32_t>(random.next());
            message.head[0] = random.next();
            message.head[1] = head_bytes == 16 ? random.next() : 0;
            message.head_bytes = head_bytes;
            fill_pattern(std::span(payload).first(bytes), bytes);
            message.payload = payload.data();
            message.payload_bytes = bytes;
            bool sent = a.endpoint->send_headed(message);
            for (int i = 0; i < 200 && !sent; ++i) {
                b.poll();
                sent = a.endpoint->send_headed(message);
            }
            ASSERT_TRUE(sent);
            ASSERT_TRUE(b.poll());
            ASSERT_EQ(sink.messages.size(), 1U);
            const auto& head = sink.messages[0].head;
            ASSERT_EQ(head.size() * 8, head_bytes);
            EXPECT_EQ(head[0], message.head[0]);
            if (head_bytes == 16) {
                EXPECT_EQ(head[1], message.head[1]);
            }
            EXPECT_EQ(sink.messages[0].immediate, message.note);
            expect_message(bytes, bytes);
        }
    message.payload_bytes = longest + 1;
    EXPECT_FALSE(a.endpoint->send_headed(message)) << "that never fits";
    EXPECT_FALSE(b.poll());
    EXPECT_EQ(a.take_events() | b.take_events(), 0U);
}

TEST_P(ShmSink, ShowsAgainWhatWasRefusedAndKeepsTheOrder) {
    if (!gathers()) return;
    for (const std::uint32_t bytes : {3U, 40U, 500U, 8U, 9U})
        ASSERT_TRUE(gather({bytes}, bytes));
    sink.refusals = 2;
    EXPECT_FALSE(b.poll());
    EXPECT_EQ(sink.shown, 1) << "the poll ends";
    EXPECT_FALSE(b.poll());
    EXPECT_TRUE(sink.messages.empty());
    while (sink.messages.size() < 3) {
        const auto before = sink.messages.size();
        ASSERT_TRUE(b.poll());
        ASSERT_GT(sink.messages.size(), before);
        sink.refusals = 1;
    }
    sink.refusals = 0;
    while (b.poll()) {
    }
    for (const std::uint32_t bytes : {3U, 40U, 500U, 8U, 9U})
        expect_message(bytes, bytes);
}

TEST_P(ShmSink, HasRoomAgainWhenFramesHaveBeenTaken) {
    if (!gathers()) return;
    const std::uint32_t longest = a.endpoint->longest_gathered();
    for (const std::uint32_t bytes : {8U, in_frame, std::min(1000U, longest), longest}) {
        SCOPED_TRACE(bytes);
        std::uint64_t sent = 0;
        while (gather({bytes}, sent)) {
            ++sent;
            ASSERT_LT(sent, 100000U);
        }
        EXPECT_GE(sent, 3U);
        EXPECT_FALSE(gather({bytes}, sent)) << "and nothing has happened";
        // It is told of the room, in the end.
        for (int i = 0; i < 5000 && !gather({bytes}, sent); ++i)
            b.poll();
        while (sink.messages.size() <= sent)
            ASSERT_TRUE(b.poll());
        for (std::uint64_t i = 0; i <= sent; ++i)
            expect_message(bytes, i);
        EXPECT_FALSE(b.poll());
    }
}

TEST_P(ShmSink, StandsBesidePostedReceivesAndRdma) {
    const TestMemory source(left, 200000);
    const TestMemory target(right, 200000);
    const TestMemory window(right, 5000);
    const TestMemory own(left, 5000);
    std::uint64_t stream = 100;
    for (int round = 0; round < 20; ++round) {
        SCOPED_TRACE(round);
        fill_pattern(source.span(), ++stream);
        // Too long to be one piece: it needs the receive, and what comes before and after does not.
        b.post_receive({target.pd()});
        const Pieces small{source.pd(0, 30)};
        a.post_send(small);
        a.post_send({source.pd()});
        a.post_send(small);
        a.post_rdma(na::Operation::RdmaWrite, window.pd(), {source.pd(0, 5000)});
        if (reliable()) a.post_rdma(na::Operation::RdmaRead, window.pd(), {own.pd()});
        a.post_send(small);
        ASSERT_TRUE(drive(a, b));
        const auto received = b.receive_done();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->errors(), 0U);
        EXPECT_EQ(received->length, target.size());
        EXPECT_EQ(matching_bytes(target.span(), stream), target.size());
        EXPECT_EQ(matching_bytes(window.span(), stream), window.size());
        EXPECT_FALSE(b.receive_done());
        ASSERT_EQ(sink.messages.size(), 3U);
        for (int i = 0; i < 3; ++i)
            expect_message(30, stream);
        while (const auto sent = a.send_done())
            EXPECT_EQ(sent->errors(), 0U);
        if (reliable()) {
            EXPECT_EQ(matching_bytes(own.span(), stream), own.size());
        }
        if (gathers()) {
            ASSERT_TRUE(gather({16, 200}, stream));
            EXPECT_TRUE(b.poll());
            expect_message(216, stream);
        }
    }
    EXPECT_EQ(a.take_events() | b.take_events(), 0U);
}

TEST_P(ShmSink, GatheredMessagesDoNotPassPostedOnes) {
    if (!gathers()) return;
    const TestMemory source(left, 1000);
    const TestMemory target(right, 1000);
    fill_pattern(source.span(), 1);
    // The channel is full, so that sends wait.
    std::uint64_t posted = 0;
    while (!a.queues.send.has_unstarted()) {
        a.post_send({source.pd(0, 40)});
        ++posted;
        ASSERT_LT(posted, 100000U);
    }
    EXPECT_FALSE(gather({8}, 2));
    bool sent = false;
    for (int i = 0; i < 100000 && !sent; ++i) {
        a.poll();
        b.poll();
        sent = gather({8}, 2);
    }
    ASSERT_TRUE(sent);
    while (b.poll()) {
    }
    ASSERT_EQ(sink.messages.size(), posted + 1);
    for (std::uint64_t i = 0; i < posted; ++i)
        expect_message(40, 1);
    expect_message(8, 2);
}

TEST_P(ShmSink, RingsWhomTheReceiverWantsToBeWoken) {
    if (!gathers()) return;
    b.endpoint->arm(na::Wakes::Nobody);
    ASSERT_TRUE(gather({8}, 1));
    EXPECT_EQ(a.counters.wakes_sent.get(), 0U);
    b.endpoint->arm(na::Wakes::Sleeper);
    EXPECT_TRUE(b.endpoint->has_news());
    while (b.poll()) {
    }
    ASSERT_TRUE(gather({16, 200}, 2));
    EXPECT_EQ(a.counters.wakes_sent.get(), 1U);
    EXPECT_TRUE(b.endpoint->has_news());
    while (b.poll()) {
    }
    EXPECT_FALSE(b.endpoint->has_news());
}

TEST_P(ShmSink, WhatCameBeforeTheEndIsShownBeforeIt) {
    const TestMemory source(left, 100);
    a.post_send({source.pd(0, 10)});
    sink.refusals = 1;
    a.disconnect();
    EXPECT_TRUE(b.endpoint->has_news());
    for (int i = 0; i < 300; ++i)
        b.poll();
    EXPECT_EQ(sink.messages.size(), 1U);
    EXPECT_EQ(b.take_events(), event_bits(na::EndpointEvent::PeerDisconnected));
    EXPECT_FALSE(a.endpoint->send_gathered({}, 0));
    EXPECT_EQ(a.endpoint->longest_gathered(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Levels, ShmSink,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

}  // namespace
