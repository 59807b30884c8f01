// SPDX-License-Identifier: BSD-3-Clause
// What the tests of a channel have in common: its sizes, and a ledger of the chunks under way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "na/seeded.hpp"
#include "na/shm/channel.hpp"
#include "na/shm/guarded_memory.hpp"

namespace via::test {

inline constexpr std::uint32_t ring_bytes_of_all = na::shm::ChannelWriter::ring_bytes_of_all;

/// The cells of the next frame when `cell` of the line are taken: what it leaves of its line is its
/// own if no other of its length fits there.
inline std::uint32_t cells_taken(std::uint32_t cell, std::uint32_t bytes) {
    const std::uint32_t cells = na::shm::cells_for(bytes);
    const std::uint32_t left =
        cell + cells > na::shm::line_cells ? na::shm::line_cells : na::shm::line_cells - cell;
    return cells != 1 && left < 2 * cells ? left : cells;
}

constexpr std::uint32_t direction_bytes(std::uint32_t lines, std::uint32_t ring) {
    return static_cast<std::uint32_t>(sizeof(na::shm::DirectionControl)) +
           lines * static_cast<std::uint32_t>(sizeof(na::shm::FrameLine)) + ring;
}

inline constexpr na::shm::Geometry small_geometry{8, direction_bytes(8, 1024)};

inline GuardedMemory::Edge edge_of(std::uint64_t seed) {
    return seed % 2 == 0 ? GuardedMemory::Edge::Front : GuardedMemory::Edge::Back;
}

/// Chunks and for each the smallest frame that can name it. What is under way is known, and that
/// nothing is put where something still lies.
class Ledger {
  public:
    Ledger(const na::shm::Direction& direction, const GuardedMemory& memory)
        : writer(direction), reader(direction), direction_(direction), memory_(memory) {}

    /// False: there is no room. All chunks have other bytes.
    bool put(std::uint32_t bytes) {
        const auto place = writer.find_place(bytes);
        if (place.at == nullptr || !writer.reserve(sizeof place.chunk)) return false;
        const std::uint32_t first = place.chunk.line * 64U;
        const std::uint32_t end = first + na::shm::round_to_line(bytes);
        EXPECT_EQ(place.at, direction_.ring + first);
        EXPECT_EQ(place.chunk.bytes, bytes);
        EXPECT_LE(end, direction_.geometry.ring_bytes());
        EXPECT_TRUE(memory_.contains(place.at, bytes));
        for (const Chunk& other : under_way)
            EXPECT_TRUE(end <= other.first || other.end <= first)
                << "chunk " << number_ << " at " << first << " to " << end << ", where number "
                << other.number << " lies from " << other.first << " to " << other.end;
        fill_pattern({place.at, bytes}, number_);
        writer.take_place(place);
        writer.publish(na::shm::FrameKind::First, 0, &place.chunk, sizeof place.chunk, 0);
        under_way.push_back({first, end, number_++});
        bytes_put += na::shm::round_to_line(bytes);
        highest = std::max(highest, end);
        return !testing::Test::HasFailure();
    }
    bool take() {
        na::shm::FrameHeader frame;
        na::shm::RingChunk named;
        EXPECT_EQ(reader.look(frame), na::shm::ChannelReader::Look::Frame);
        EXPECT_EQ(frame.length, sizeof named);
        reader.read_payload(reinterpret_cast<std::byte*>(&named), sizeof named);
        const Chunk chunk = under_way.front();
        under_way.pop_front();
        EXPECT_EQ(named.line * 64U, chunk.first);
        const std::byte* data = reader.chunk(named);
        EXPECT_NE(data, nullptr);
        if (testing::Test::HasFailure()) return false;
        EXPECT_EQ(matching_bytes({data, named.bytes}, chunk.number), named.bytes)
            << "of chunk " << chunk.number;
        reader.chunk_done(named);
        reader.advance(frame);
        return !testing::Test::HasFailure();
    }
    void take_all() {
        while (!under_way.empty() && take()) {
        }
    }

    struct Chunk {
        std::uint32_t first, end;
        std::uint64_t number;
    };
    na::shm::ChannelWriter writer;
    na::shm::ChannelReader reader;
    std::deque<Chunk> under_way;
    std::uint64_t bytes_put = 0;
    std::uint32_t highest = 0;  ///< how much of the ring was ever used

  private:
    const na::shm::Direction direction_;
    const GuardedMemory& memory_;
    std::uint64_t number_ = 1;
};

}  // namespace via::test
