// SPDX-License-Identifier: BSD-3-Clause
// Which memory the kernel may read after the send, until the peer has acknowledged it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

/// Side 0 is what may lend.
class Lending : public testing::Test {
  protected:
    static constexpr std::size_t bytes = long_bytes;

    void connect(const NetworkOptions& options) {
        network.emplace(71, options);
        fill_pattern(near.data, 5);
        network->run(20 * millisecond, [] { return false; });  // the link is up
        send();                                                // a long packet has shown the way
        lender().lent_trains = 0;
    }
    [[nodiscard]] Side& lender() { return network->side(0); }
    [[nodiscard]] std::optional<na::WorkEntry> completes(na::WorkQueue& queue, std::size_t side) {
        std::optional<na::WorkEntry> entry;
        network->run(10'000 * millisecond, [&] {
            entry = network->side(side).completed(queue);
            return entry.has_value();
        });
        return entry;
    }
    void send() {
        network->side(1).post_receive(far.part(0, bytes), far.handle, 1);
        lender().post_send(near.part(0, bytes), near.handle, std::nullopt, 2);
        network->poll(0);
        EXPECT_EQ(error_of(completes(network->side(1).queues.receive, 1)), 0U);
        EXPECT_EQ(error_of(completes(lender().queues.send, 0)), 0U);
    }
    [[nodiscard]] bool far_has_it() const { return matching_bytes(far.data, 5) == bytes; }

    std::optional<SimulatedNetwork> network;
    Memory near{bytes, ka::right_rdma_read};
    Memory far{bytes, ka::right_rdma_write};
};

NetworkOptions in_order() {
    NetworkOptions options = options_of(1);
    options.faults.jitter = 0;
    options.reads_late = true;
    return options;
}

TEST_F(Lending, SendsAreLent) {
    connect(in_order());
    std::fill(far.data.begin(), far.data.end(), std::byte{0});
    send();
    EXPECT_GT(lender().lent_trains, 2U);
    EXPECT_TRUE(far_has_it());
}

TEST_F(Lending, WritesAreLent) {
    connect(in_order());
    std::fill(far.data.begin(), far.data.end(), std::byte{0});
    lender().post_write(near.part(0, bytes), near.handle, far.data.data(), far.handle, std::nullopt,
                        3);
    network->poll(0);
    EXPECT_EQ(error_of(completes(lender().queues.send, 0)), 0U);
    EXPECT_GT(lender().lent_trains, 2U);
    EXPECT_TRUE(far_has_it());
}

/// The program whose memory is read does not know of it and may write there at any time.
TEST_F(Lending, WhatAPeerReadsIsNot) {
    connect(in_order());
    std::fill(far.data.begin(), far.data.end(), std::byte{0});
    network->side(1).post_read(far.part(0, bytes), far.handle, near.data.data(), near.handle, 3);
    network->poll(1);
    EXPECT_EQ(error_of(completes(network->side(1).queues.send, 1)), 0U);
    EXPECT_EQ(lender().lent_trains, 0U);
    EXPECT_TRUE(far_has_it());
}

/// There a send is complete when the kernel has it, and its memory the program's again.
TEST_F(Lending, NothingIsWhereMessagesMayBeLost) {
    NetworkOptions options = in_order();
    options.reliability = na::unreliable;
    options.reads_late = false;
    connect(options);
    send();
    EXPECT_EQ(lender().lent_trains, 0U);
    EXPECT_TRUE(far_has_it());
}

/// What is lent costs the peer more, so it is for peers that have time.
TEST_F(Lending, APeerThatFallsBehindGetsCopies) {
    NetworkOptions options = in_order();
    options.faults.bytes_per_second = 500e6;
    options.faults.queue_bytes = 4U << 20U;
    connect(options);
    for (std::uint64_t i = 0; i < 8; ++i) {
        network->side(1).post_receive(far.part(0, bytes), far.handle, i);
        lender().post_send(near.part(0, bytes), near.handle, std::nullopt, i);
    }
    network->poll(0);
    for (int i = 0; i < 8; ++i)
        ASSERT_EQ(error_of(completes(lender().queues.send, 0)), 0U);
    constexpr std::uint64_t trains = 8 * bytes / 61'440;
    EXPECT_LT(lender().lent_trains, trains / 4);
}

/// Several of them in a packet, their payloads in a row.
class LendingMiddling : public Lending {
  protected:
    static constexpr std::size_t count = 60;

    /// Which messages are writes; all others are sends.
    void stream(std::size_t each, bool immediate, bool writes) {
        std::fill(far.data.begin(), far.data.end(), std::byte{0});
        for (std::size_t i = 0; i < count; ++i)
            network->side(1).post_receive(far.part(i * each, each), far.handle, i);
        for (std::size_t i = 0; i < count; ++i) {
            const auto memory = near.part(i * each, each);
            std::optional<std::uint32_t> word;
            if (immediate) word = static_cast<std::uint32_t>(1'000 + i);
            if (writes && i % 2 == 0)
                lender().post_write(memory, near.handle, far.data.data() + i * each, far.handle,
                                    word, i);
            else
                lender().post_send(memory, near.handle, word, i);
        }
        network->poll(0);
        for (std::size_t i = 0; i < count; ++i) {
            const auto sent = completes(lender().queues.send, 0);
            ASSERT_EQ(error_of(sent), 0U);
            EXPECT_EQ(sent->length, each);
        }
        // A write takes no receive, but with immediate data.
        for (std::size_t i = 0; i < (writes && !immediate ? count / 2 : count); ++i) {
            const auto received = completes(network->side(1).queues.receive, 1);
            ASSERT_EQ(error_of(received), 0U);
            if (immediate) {
                EXPECT_EQ(received->immediate, 1'000 + i);
            }
        }
    }
};

TEST_F(LendingMiddling, MessagesAreLentSeveralInAPacket) {
    connect(in_order());
    for (const std::size_t each : {std::size_t{2'048}, std::size_t{4'096}, std::size_t{10'000}})
        for (const bool immediate : {false, true}) {
            SCOPED_TRACE(each);
            lender().lent_trains = 0;
            ASSERT_NO_FATAL_FAILURE(stream(each, immediate, false));
            EXPECT_GE(lender().lent_trains, count * each / 61'440 / 2);
            EXPECT_EQ(matching_bytes(far.data, 5), count * each);
        }
}

TEST_F(LendingMiddling, WritesAmongThem) {
    connect(in_order());
    ASSERT_NO_FATAL_FAILURE(stream(4'096, true, true));
    EXPECT_GE(lender().lent_trains, 2U);
    EXPECT_EQ(matching_bytes(far.data, 5), count * 4'096);
}

TEST_F(LendingMiddling, BehindTheRestOfALongOne) {
    constexpr std::size_t first = 70'000;
    constexpr std::size_t each = 4'096;
    constexpr std::size_t others = 14;
    connect(in_order());
    std::fill(far.data.begin(), far.data.end(), std::byte{0});
    for (std::size_t i = 0; i <= others; ++i) {
        const std::size_t at = i == 0 ? 0 : first + (i - 1) * each;
        const std::size_t length = i == 0 ? first : each;
        network->side(1).post_receive(far.part(at, length), far.handle, i);
        lender().post_send(near.part(at, length), near.handle, std::nullopt, i);
    }
    network->poll(0);
    for (std::size_t i = 0; i <= others; ++i)
        ASSERT_EQ(error_of(completes(network->side(1).queues.receive, 1)), 0U);
    EXPECT_EQ(matching_bytes(far.data, 5), first + others * each);
    // The greater part of the long one, then its rest and the others.
    EXPECT_EQ(lender().lent_trains, 2U);
}

/// Of every packet all is lent, wherever in it one message ends and the next one begins.
TEST_F(LendingMiddling, LongOnesOfWhichNoneFillsItsPackets) {
    connect(in_order());
    for (const std::size_t each : {std::size_t{65'536}, std::size_t{40'000}, std::size_t{33'000}}) {
        SCOPED_TRACE(each);
        constexpr std::size_t together = 30;
        std::fill(far.data.begin(), far.data.end(), std::byte{0});
        for (std::size_t i = 0; i < together; ++i) {
            network->side(1).post_receive(far.part(i * each, each), far.handle, i);
            const auto memory = near.part(i * each, each);
            if (i % 3 == 2)
                lender().post_write(memory, near.handle, far.data.data() + i * each, far.handle,
                                    std::uint32_t{7}, i);
            else
                lender().post_send(memory, near.handle, std::nullopt, i);
        }
        lender().lent_trains = 0;
        network->poll(0);
        for (std::size_t i = 0; i < together; ++i)
            ASSERT_EQ(error_of(completes(network->side(1).queues.receive, 1)), 0U);
        for (std::size_t i = 0; i < together; ++i)
            ASSERT_EQ(error_of(completes(lender().queues.send, 0)), 0U);
        EXPECT_EQ(matching_bytes(far.data, 5), together * each);
        EXPECT_GE(lender().lent_trains, together * each / 65'536);
        EXPECT_LE(lender().lent_trains, together * each / 50'000 + 1);
    }
}

/// Its pieces are sent once more from where they lie.
TEST_F(LendingMiddling, PiecesThatWereLentAndLost) {
    connect(in_order());
    constexpr std::size_t each = 65'536;
    constexpr std::size_t together = 30;
    std::fill(far.data.begin(), far.data.end(), std::byte{0});
    for (std::size_t i = 0; i < together; ++i) {
        network->side(1).post_receive(far.part(i * each, each), far.handle, i);
        lender().post_send(near.part(i * each, each), near.handle, std::nullopt, i);
    }
    lender().lent_trains = 0;
    network->faults(0).drop = 50;
    network->poll(0);
    for (std::size_t i = 0; i < together; ++i)
        ASSERT_EQ(error_of(completes(network->side(1).queues.receive, 1)), 0U);
    EXPECT_EQ(matching_bytes(far.data, 5), together * each);
    EXPECT_GT(lender().transport.link(0).counters().lost_packets, 0U);
    EXPECT_GT(lender().lent_trains, 0U);
}

TEST_F(LendingMiddling, ShortOnesAreCopied) {
    connect(in_order());
    ASSERT_NO_FATAL_FAILURE(stream(2'047, false, false));
    EXPECT_EQ(lender().lent_trains, 0U);
    EXPECT_EQ(matching_bytes(far.data, 5), count * 2'047);
}

}  // namespace
}  // namespace via::test
