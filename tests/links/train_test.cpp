// SPDX-License-Identifier: BSD-3-Clause
#include "links/train.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace via::links {
namespace {

using Packets = std::vector<std::vector<std::byte>>;
constexpr std::uint32_t train_packet_bytes = 500;

enum class Way { Refers, Copies, Sealed };

class TrainTest : public testing::TestWithParam<Way> {
  protected:
    TrainTest() {
        for (std::size_t i = 0; i < memory.size(); ++i)
            memory[i] = static_cast<std::byte>(i * 7 + i / 251);
    }

    void begin() {
        wire::PacketHeader header;
        header.token = 77;
        header.flags = sealed ? wire::packet_sealed : std::uint8_t{0};
        train.begin(train_packet_bytes, Train::most_bytes, requester, header, first_number);
    }
    /// As the kernel cuts it.
    [[nodiscard]] Packets cut() const {
        std::vector<std::byte> all;
        for (const iovec& part : train.parts()) {
            const auto* from = static_cast<const std::byte*>(part.iov_base);
            all.insert(all.end(), from, from + part.iov_len);
        }
        Packets packets;
        for (std::size_t at = 0; at < all.size(); at += train.packet_bytes()) {
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
            const std::size_t bytes = std::min<std::size_t>(train.packet_bytes(), all.size() - at);
            packets.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(bytes));
        }
        return packets;
    }
    /// The frames of the packet at a place in the train; fails if it is not genuine.
    std::vector<std::byte> open(const std::vector<std::byte>& packet, std::uint64_t place) {
        const std::uint64_t number = first_number + place;
        std::vector<std::byte> opened;
        const auto header = wire::decode_packet_header(packet.data());
        EXPECT_EQ(header.token, 77U);
        EXPECT_EQ(header.number, static_cast<std::uint32_t>(number));
        const auto frames = acceptor.open(header, number, packet, opened);
        if (!frames) {
            ADD_FAILURE() << "packet " << number << " is not genuine";
            return {};
        }
        return {frames->begin(), frames->end()};
    }
    void append(std::uint32_t bytes, std::byte value) {
        std::byte* at = train.append(bytes);
        std::fill(at, at + bytes, value);
    }
    [[nodiscard]] bool refers_to_memory() const {
        for (const iovec& part : train.parts()) {
            const auto* at = static_cast<const std::byte*>(part.iov_base);
            if (at >= memory.data() && at < memory.data() + memory.size()) return true;
        }
        return false;
    }

    /// The low half of the numbers turns over in each train.
    static constexpr std::uint64_t first_number = (std::uint64_t{3} << 32U) - 2;
    const bool sealed = GetParam() == Way::Sealed;
    wire::PacketGuard requester{{1, 2, 3}, true, sealed};
    wire::PacketGuard acceptor{{1, 2, 3}, false, sealed};
    std::uint32_t capacity = train_packet_bytes - requester.overhead();
    std::vector<std::byte> memory = std::vector<std::byte>(100'000);
    Train train{GetParam() == Way::Copies};
};

TEST_P(TrainTest, AllPacketsButTheLastAreEquallyLong) {
    begin();
    for (std::uint64_t i = 0; i < 5; ++i) {
        train.open_packet();
        append(10 + static_cast<std::uint32_t>(i), static_cast<std::byte>(i + 1));
    }
    EXPECT_EQ(train.packets(), 5U);
    train.finish();
    const Packets packets = cut();
    ASSERT_EQ(packets.size(), 5U);
    for (std::uint64_t i = 0; i < 5; ++i) {
        const bool last = i == 4;
        EXPECT_EQ(packets[i].size(), last ? 16 + 14 + requester.overhead() : train_packet_bytes);
        const auto frames = open(packets[i], i);
        const std::size_t filled = 10 + i;
        ASSERT_GE(frames.size(), filled);
        for (std::size_t at = 0; at < frames.size(); ++at)
            ASSERT_EQ(frames[at], at < filled ? static_cast<std::byte>(i + 1) : std::byte{0})
                << "packet " << i << " byte " << at << ": what is not filled is padding";
    }
    std::uint32_t bytes = 0;
    for (const auto& packet : packets)
        bytes += static_cast<std::uint32_t>(packet.size());
    EXPECT_EQ(train.bytes(), bytes);
}

TEST_P(TrainTest, LongPayloadsAreReferredToUnlessTheyMustOrMayBeCopied) {
    begin();
    train.open_packet();
    append(12, std::byte{8});
    EXPECT_EQ(train.room(), capacity - 28);
    train.refer(memory.data() + 100, 300);
    EXPECT_EQ(train.room(), capacity - 328);
    append(12, std::byte{9});
    train.finish();
    EXPECT_EQ(refers_to_memory(), GetParam() == Way::Refers);
    const Packets packets = cut();
    ASSERT_EQ(packets.size(), 1U);
    const auto frames = open(packets[0], 0);
    ASSERT_EQ(frames.size(), 324U);
    EXPECT_EQ(frames[11], std::byte{8});
    EXPECT_TRUE(std::equal(frames.begin() + 12, frames.begin() + 312, memory.begin() + 100));
    EXPECT_EQ(frames[312], std::byte{9});
}

TEST_P(TrainTest, ShortPayloadsAreCopied) {
    begin();
    train.open_packet();
    train.refer(memory.data(), Train::least_reference - 1);
    train.refer(memory.data(), 0);
    train.finish();
    EXPECT_FALSE(refers_to_memory());
    EXPECT_EQ(train.parts().size(), 1U);
    const auto frames = open(cut()[0], 0);
    EXPECT_TRUE(std::equal(frames.begin(), frames.end(), memory.begin()));
}

TEST_P(TrainTest, APacketCanBeFilledUpToItsLength) {
    begin();
    train.open_packet();
    append(12, std::byte{2});
    train.pad(capacity);
    EXPECT_EQ(train.room(), 0U);
    train.pad(10);  // nothing to do
    train.finish();
    EXPECT_EQ(cut()[0].size(), train_packet_bytes);
    open(cut()[0], 0);
}

TEST_P(TrainTest, ADroppedPacketLeavesNothing) {
    begin();
    train.open_packet();
    append(20, std::byte{1});
    train.open_packet();
    EXPECT_TRUE(train.packet_empty());
    train.drop_packet();
    train.finish();
    EXPECT_EQ(train.packets(), 1U);
    const Packets packets = cut();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].size(), train_packet_bytes) << "the one before it had been filled up";
    open(packets[0], 0);
}

TEST_P(TrainTest, AnOnlyPacketThatIsDroppedLeavesAnEmptyTrain) {
    begin();
    train.open_packet();
    train.drop_packet();
    train.finish();
    EXPECT_EQ(train.packets(), 0U);
    EXPECT_TRUE(train.parts().empty());
    train.open_packet();
    append(20, std::byte{1});
    train.refer(memory.data(), 300);
    train.finish();
    const Packets packets = cut();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(open(packets[0], 0).size(), 320U);
}

TEST_P(TrainTest, WhatIsCopiedIsOnePartForTheKernel) {
    begin();
    for (int i = 0; i < 5; ++i) {
        train.open_packet();
        append(20, std::byte{1});
        train.refer(memory.data(), train.room());
    }
    train.finish();
    EXPECT_EQ(train.parts().size(), GetParam() == Way::Refers ? 10U : 1U);
    EXPECT_EQ(cut().size(), 5U);
}

TEST_P(TrainTest, ManyReferencesInManyPacketsStayInOrder) {
    for (int round = 0; round < 2; ++round) {  // and a train can be used again
        begin();
        std::size_t at = 0;
        std::uint64_t number = 0;
        while (train.has_room() && at + train_packet_bytes < memory.size()) {
            train.open_packet();
            ++number;
            const std::uint32_t half = train.room() / 2;
            train.refer(memory.data() + at, half);
            const std::uint32_t rest = train.room();
            train.refer(memory.data() + at + half, rest);
            at += half + rest;
        }
        train.finish();
        const Packets packets = cut();
        ASSERT_EQ(packets.size(), number);
        ASSERT_GT(number, 50U);
        EXPECT_LE(number * train_packet_bytes, Train::most_bytes);
        at = 0;
        for (std::uint64_t i = 0; i < number; ++i) {
            const auto frames = open(packets[i], i);
            EXPECT_TRUE(std::equal(frames.begin(), frames.end(),
                                   memory.begin() + static_cast<std::ptrdiff_t>(at)));
            at += frames.size();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Links, TrainTest, testing::Values(Way::Refers, Way::Copies, Way::Sealed),
                         [](const auto& param) {
                             return param.param == Way::Refers   ? "Refers"
                                    : param.param == Way::Copies ? "Copies"
                                                                 : "Sealed";
                         });

/// A long train of packets of 1400 bytes, for memory that begins at a page.
class LendingTrain : public testing::Test {
  protected:
    void begin(bool lends) {
        train.begin_long(1400, Train::most_bytes, guard, {}, 5, lends);
        train.open_packet();
        std::byte* at = train.append(20);
        std::fill(at, at + 20, std::byte{1});
    }
    [[nodiscard]] const std::byte* page(std::size_t number) const {
        return memory.get() + number * Train::page_bytes;
    }
    wire::PacketGuard guard{{1, 2, 3}, true, false};
    base::AlignedBytes memory = base::aligned_bytes(40 * Train::page_bytes);
    Train train{false};
};

TEST_F(LendingTrain, EndsPiecesWherePagesEnd) {
    begin(true);
    const std::uint32_t room = train.room();
    ASSERT_GT(room, 15 * Train::page_bytes);
    EXPECT_EQ(train.piece_of(page(0), room), 15 * Train::page_bytes);
    EXPECT_EQ(train.piece_of(page(0) + 4000, room), 15 * Train::page_bytes - 4000);
    EXPECT_EQ(train.piece_of(page(0) + 1, 40'000), 9 * Train::page_bytes - 1);
}

TEST_F(LendingTrain, LeavesShortPiecesAsTheyAre) {
    begin(true);
    EXPECT_EQ(train.piece_of(page(0) + 7, Train::least_lent), Train::least_lent);
    EXPECT_EQ(train.piece_of(page(0) + 7, 1'000), 1'000U);
}

TEST_F(LendingTrain, SaysThatItsLastPartIsLent) {
    begin(true);
    train.lend(page(0), 50'000);
    train.finish();
    ASSERT_TRUE(train.is_long());
    EXPECT_TRUE(train.lends_last());
    EXPECT_EQ(train.parts().back().iov_base, page(0));
    EXPECT_EQ(train.parts().back().iov_len, 50'000U);
}

TEST_F(LendingTrain, LendsNothingThatSomethingFollows) {
    begin(true);
    train.lend(page(0), 50'000);
    std::byte* at = train.append(30);
    std::fill(at, at + 30, std::byte{2});
    train.finish();
    EXPECT_FALSE(train.lends_last());
}

TEST_F(LendingTrain, LendsNothingShortOrUnasked) {
    begin(true);
    train.lend(page(0), Train::least_lent - 1);
    train.finish();
    EXPECT_FALSE(train.lends_last());
    begin(true);
    train.refer(page(0), 50'000);
    train.finish();
    EXPECT_FALSE(train.lends_last());
    begin(false);
    EXPECT_EQ(train.piece_of(page(0), 60'000), 60'000U);
    train.lend(page(0), 50'000);
    train.finish();
    EXPECT_FALSE(train.lends_last());
}

/// Frames of six bytes, their payloads behind all of them.
TEST_F(LendingTrain, PutsPayloadsBehindAllFrames) {
    begin(true);
    const std::uint32_t room = train.room();
    const std::array pieces = {std::pair{page(3), 4096U}, std::pair{page(4), 30'000U},
                               std::pair{page(20) + 5, 3'000U}};
    std::uint32_t used = 0;
    for (const auto& [data, bytes] : pieces) {
        ASSERT_EQ(train.piece_apart(6, data, bytes), bytes);
        std::byte* at = train.append(6);
        std::fill(at, at + 6, std::byte{3});
        train.lend_apart(data, bytes);
        used += 6 + bytes;
    }
    EXPECT_EQ(train.bytes_apart(), used - 18);
    EXPECT_EQ(train.room(), room - used);
    train.finish();
    ASSERT_TRUE(train.lends_last());
    // What lies together is one part.
    ASSERT_EQ(train.parts().size() - train.parts_not_lent(), 2U);
    EXPECT_EQ(train.parts()[1].iov_base, page(3));
    EXPECT_EQ(train.parts()[1].iov_len, 34'096U);
    EXPECT_EQ(train.parts()[2].iov_base, page(20) + 5);
    EXPECT_EQ(train.parts()[2].iov_len, 3'000U);
    // The receiver finds the frames, then the payloads, and the checksum is right.
    std::vector<std::byte> all;
    for (const iovec& part : train.parts()) {
        const auto* from = static_cast<const std::byte*>(part.iov_base);
        all.insert(all.end(), from, from + part.iov_len);
    }
    EXPECT_EQ(all.size(), train.bytes());
    const auto packet = std::span(all).subspan(wire::LongPacketPrefix::bytes);
    const wire::PacketGuard receiver{{1, 2, 3}, false, false};
    std::vector<std::byte> opened;
    const auto body = receiver.open(wire::decode_packet_header(packet.data()), 5, packet, opened);
    ASSERT_TRUE(body);
    ASSERT_EQ(body->size(), 20U + used);
    EXPECT_TRUE(std::equal(page(3), page(3) + 34'096, body->begin() + 38));
    EXPECT_TRUE(std::equal(page(20) + 5, page(20) + 3'005, body->begin() + 38 + 34'096));
}

TEST_F(LendingTrain, PutsNoMorePagesApartThanTheKernelTakes) {
    begin(true);
    std::uint32_t count = 0;
    // Each begins in one page and ends in the next one.
    for (; count < 20; ++count) {
        const std::byte* data = page(2 * count) + 100;
        if (train.piece_apart(6, data, 4096) < 4096) break;
        std::byte* at = train.append(6);
        std::fill(at, at + 6, std::byte{3});
        train.lend_apart(data, 4096);
    }
    EXPECT_EQ(count, Train::most_lent_pages / 2);
    // One page is left.
    EXPECT_EQ(train.piece_apart(6, page(39), 4096), 4096U);
    EXPECT_EQ(train.piece_apart(6, page(39) - 1, 4096), 1U) << "up to the end of the page";
    EXPECT_EQ(train.piece_apart(6, page(39), 8192), 4096U);
    // Those that lie together share the pages between them.
    begin(true);
    const std::byte* data = page(0) + 100;
    for (count = 0; train.piece_apart(6, data, 4096) == 4096; ++count, data += 4096) {
        std::byte* at = train.append(6);
        std::fill(at, at + 6, std::byte{3});
        train.lend_apart(data, 4096);
    }
    EXPECT_EQ(count, Train::most_lent_pages - 1);
    EXPECT_EQ(train.piece_apart(6, data, 4096), 4096U - 100U) << "the page has room left";
    EXPECT_EQ(train.piece_apart(6, page(0), train.room()), 0U);
}

TEST_F(LendingTrain, TakesFramesBackIfTooFewPayloadsLieApart) {
    begin(true);
    const std::uint32_t length = train.length();
    for (std::size_t i = 0; i < 2; ++i) {
        std::byte* at = train.append(6);
        std::fill(at, at + 6, std::byte{3});
        train.lend_apart(page(i), 4096);
    }
    train.rewind(length);
    EXPECT_EQ(train.length(), length);
    EXPECT_EQ(train.bytes_apart(), 0U);
    train.lend(page(0), 40'000);
    train.finish();
    ASSERT_EQ(train.parts().size(), 2U);
    EXPECT_TRUE(train.lends_last());
    EXPECT_EQ(train.bytes(), wire::LongPacketPrefix::bytes + length + 40'000);
}

/// Only as long as it is that packet.
TEST_F(LendingTrain, ForgetsWhatWasLentBefore) {
    begin(true);
    train.lend(page(0), 50'000);
    train.finish();
    train.begin(1400, Train::most_bytes, guard, {}, 6);
    train.open_packet();
    train.refer(page(0), 1'000);
    train.finish();
    EXPECT_FALSE(train.lends_last());
}

}  // namespace
}  // namespace via::links
