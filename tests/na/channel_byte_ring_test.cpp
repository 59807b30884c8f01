// SPDX-License-Identifier: BSD-3-Clause
// The byte ring of a channel: how it grows, how much it holds, and which chunks lie in it.
#include "na/shm/channel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "na/channel_parts.hpp"
#include "na/seeded.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;

namespace {

constexpr Geometry grown_geometry{64, direction_bytes(64, 1U << 20)};

TEST(ByteRing, OfAQuietConnectionStaysSmall) {
    const GuardedMemory memory(grown_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), grown_geometry);
    Ledger ledger(direction, memory);
    while (ledger.bytes_put < 3 * 8192 - 2 * 1024) {
        ASSERT_TRUE(ledger.put(1000));
        ASSERT_TRUE(ledger.take());
    }
    EXPECT_EQ(ledger.highest, 8192U) << "all of it was used before it grows";
    const auto* untouched = direction.ring + 8192;
    const auto* end = direction.ring + grown_geometry.ring_bytes();
    EXPECT_TRUE(std::all_of(untouched, end, [](std::byte byte) { return byte == std::byte{}; }));
}

/// Doubling, and every time only after more traffic than a few times what there is.
TEST(ByteRing, GrowsWithTraffic) {
    const std::uint32_t limit = grown_geometry.ring_bytes();
    for (const std::uint32_t bytes : {64U, 1000U, 1024U, 1500U}) {
        if (sanitized && bytes != 1500U) continue;  // a minute otherwise; no two threads meet here
        SCOPED_TRACE(bytes);
        const GuardedMemory memory(grown_geometry.direction_bytes);
        Ledger ledger(Direction::at(memory.data(), grown_geometry), memory);
        std::uint32_t size = 8192;
        std::uint64_t since = 0;  // traffic when it got this size
        std::uint32_t growths = 0;
        while (ledger.bytes_put < 70 * std::uint64_t{limit}) {
            ASSERT_TRUE(ledger.put(bytes));
            if (ledger.highest > size) {
                const std::uint64_t rounds = size < ring_bytes_of_all ? 4 : 64;
                ASSERT_GE(ledger.bytes_put - since, (rounds - 1) * size);
                ASSERT_LT(ledger.bytes_put - since, (rounds + 1) * size);
                size *= 2;
                since = ledger.bytes_put;
                ++growths;
            }
            ASSERT_LE(ledger.highest, size);
            ASSERT_TRUE(ledger.take());
        }
        EXPECT_EQ(growths, 7U);
        EXPECT_LE(ledger.highest, limit);
        EXPECT_GT(ledger.highest, limit - round_to_line(bytes));
    }
}

/// A receiver that lags gets at once what every connection may have, and no more.
TEST(ByteRing, GrowsWhenTheReceiverLags) {
    for (const std::uint32_t ring :
         {1024U, 4096U, 8192U, 8192U + 64U, 100U * 64U, 300U * 64U, (1U << 16) - 64U, 1U << 18}) {
        SCOPED_TRACE(ring);
        // As many frames as there can be chunks.
        const Geometry geometry{4096, direction_bytes(4096, ring)};
        const GuardedMemory memory(geometry.direction_bytes);
        Ledger ledger(Direction::at(memory.data(), geometry), memory);
        std::uint32_t count = 0;
        while (count <= ring && ledger.put(200))
            ++count;
        ASSERT_FALSE(HasFailure());
        EXPECT_EQ(count, std::min(ring, ring_bytes_of_all) / round_to_line(200));
        // A gap too small for one more of these is still good for a smaller one.
        EXPECT_EQ(ledger.put(1), ring % round_to_line(200) != 0);
        ledger.take_all();
        ASSERT_FALSE(HasFailure());
    }
}

/// There are never more chunks under way than there can be frames that name them, also if a peer
/// says that it has taken the frames and not the chunks.
TEST(ByteRing, HoldsNoMoreChunksThanThereAreCells) {
    const GuardedMemory memory(grown_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), grown_geometry);
    Ledger ledger(direction, memory);
    const std::uint32_t cells = grown_geometry.frame_lines * line_cells;
    for (std::uint32_t i = 0; i < cells; ++i)
        ASSERT_TRUE(ledger.put(1));
    direction.control->consumed.lines.store(grown_geometry.frame_lines);
    ASSERT_TRUE(ledger.writer.reserve(0));
    EXPECT_EQ(ledger.writer.find_place(1).at, nullptr);
    direction.control->consumed.chunks.store(1);
    EXPECT_NE(ledger.writer.find_place(1).at, nullptr);
}

TEST(ByteRing, ChunksOutsideAreRefused) {
    for (const std::uint32_t ring : {least_ring_bytes, 1024U + 192U, 1U << 16, max_ring_bytes}) {
        SCOPED_TRACE(ring);
        const Geometry geometry{8, direction_bytes(8, ring)};
        const GuardedMemory memory(geometry.direction_bytes);
        const Direction direction = Direction::at(memory.data(), geometry);
        ChannelReader reader(direction);
        std::set<std::uint32_t> lines = {0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF};
        for (std::uint32_t near = 0; near < 8; ++near)
            lines.insert(
                {ring / 64 - near, ring / 64 + near, (ring - max_chunk_bytes) / 64 + near});
        for (const std::uint32_t line : lines) {
            if (line > 0xFFFF) continue;
            std::set<std::uint32_t> lengths = {0xFFFE, 0xFFFF};
            for (std::uint32_t bytes = 0; bytes <= 130; ++bytes)
                lengths.insert({bytes, bytes * 500});
            for (std::uint32_t near = 0; near < 3; ++near)
                lengths.insert({ring - line * 64 - near, ring - line * 64 + near});
            for (const std::uint32_t bytes : lengths) {
                if (bytes > 0xFFFF) continue;
                const bool inside = bytes != 0 && line * 64 + bytes <= ring;
                const RingChunk chunk{static_cast<std::uint16_t>(line),
                                      static_cast<std::uint16_t>(bytes)};
                const std::byte* data = reader.chunk(chunk);
                ASSERT_EQ(data, inside ? direction.ring + std::size_t{line} * 64 : nullptr)
                    << "line " << line << " bytes " << bytes;
                ASSERT_TRUE(!inside || memory.contains(data, bytes));
            }
        }
    }
}

}  // namespace
