// SPDX-License-Identifier: BSD-3-Clause
// A channel whose rings have any shape that is allowed: it carries everything, in one thread and
// between two, and never holds more than its rings.
#include "na/shm/channel.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "na/channel_parts.hpp"
#include "na/seeded.hpp"
#include "na/shm/frame_stream.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;
using via::base::Deadline;

namespace {

TEST(Geometry, SaysWhatIsSound) {
    EXPECT_TRUE((Geometry{8, direction_bytes(8, least_ring_bytes)}.sound()));
    EXPECT_TRUE((Geometry{32, 16384}.sound()));
    EXPECT_TRUE((Geometry{32, 131072}.sound()));
    EXPECT_TRUE((Geometry{4096, direction_bytes(4096, max_ring_bytes)}.sound()));
    EXPECT_FALSE((Geometry{0, 16384}.sound()));
    EXPECT_FALSE((Geometry{4, 16384}.sound()));
    EXPECT_FALSE((Geometry{33, 16384}.sound()));
    EXPECT_FALSE((Geometry{8192, 4U << 20}.sound()));
    EXPECT_FALSE((Geometry{0x80000000U, 16384}.sound()));
    EXPECT_FALSE((Geometry{8, direction_bytes(8, least_ring_bytes) - 64}.sound()));
    EXPECT_FALSE((Geometry{8, 16384 + 1}.sound()));
    // A chunk must be able to name every line of the ring.
    EXPECT_FALSE((Geometry{8, direction_bytes(8, max_ring_bytes) + 64}.sound()));
    EXPECT_FALSE((Geometry{8, 64U << 20}.sound()));
    EXPECT_FALSE((Geometry{8, 0}.sound()));
    EXPECT_FALSE((Geometry{8, 0xFFFFFFC0U}.sound()));
    EXPECT_EQ((Geometry{8, direction_bytes(8, 1024)}.ring_bytes()), 1024U);
    EXPECT_EQ((Geometry{4096, 4U << 20}.channel_bytes()), 8U << 20);
    EXPECT_EQ((Geometry{4096, 0x80000000U}.channel_bytes()), std::uint64_t{1} << 32);
}

struct Shape {
    const char* name;
    std::uint32_t lines;
    std::uint32_t ring;
};

class Channel : public testing::TestWithParam<Shape> {
  protected:
    [[nodiscard]] Geometry geometry() const {
        return {GetParam().lines, direction_bytes(GetParam().lines, GetParam().ring)};
    }
    /// What the writer says about itself, known without one.
    [[nodiscard]] std::uint32_t longest_chunk() const {
        return std::min({GetParam().ring / 4, ring_bytes_of_all / 4, max_chunk_bytes});
    }
    [[nodiscard]] std::uint64_t seeds(std::uint32_t most) const {
        return repeated(GetParam().ring > (1U << 20) ? (most + 9) / 10 : most);
    }
};

TEST_P(Channel, CarriesEverythingInTurns) {
    ASSERT_TRUE(geometry().sound());
    for (std::uint64_t seed = 1; seed <= seeds(30); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(geometry().direction_bytes, edge_of(seed));
        const Direction direction = Direction::at(memory.data(), geometry());
        StreamProducer producer(direction, seed, longest_chunk());
        StreamConsumer consumer(direction, seed, longest_chunk());
        ASSERT_EQ(producer.writer.longest_chunk(), longest_chunk());
        Random random(seed);
        // Now the one is ahead, now the other, now both keep pace.
        const std::uint64_t frames = std::min<std::uint64_t>(8 * 4 * GetParam().lines, 3000) + 500;
        bool all_told = true;  // the consumer found nothing more, and said so
        while (consumer.taken < frames) {
            const std::uint32_t burst = random.between(1, random.one_in(3) ? 4000 : 5);
            std::uint32_t made = 0;
            while (made < burst && producer.step())
                ++made;
            // Nobody would ever come to make room.
            ASSERT_TRUE(made != 0 || !all_told) << "stuck at " << producer.written;
            all_told = false;
            const std::uint32_t appetite = random.between(1, random.one_in(3) ? 4000 : 5);
            for (std::uint32_t i = 0; i < appetite; ++i) {
                const auto step = consumer.step();
                ASSERT_NE(step, StreamConsumer::Step::Wrong);
                if (step == StreamConsumer::Step::Nothing) {
                    ASSERT_EQ(consumer.taken, producer.written);
                    all_told = true;
                    break;
                }
            }
        }
        EXPECT_GT(producer.frames_full + producer.ring_full, 0U);
        EXPECT_GT(consumer.chunks, 0U);
        EXPECT_GT(consumer.glances, 0U);
        EXPECT_GT(consumer.rounds, 0U);
        EXPECT_LE(consumer.ring_seen, GetParam().ring);
    }
}

TEST_P(Channel, NeverHoldsMoreThanItsRings) {
    const GuardedMemory memory(geometry().direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry());
    ChannelWriter writer(direction);
    ChannelReader reader(direction);
    const std::array<std::byte, max_inline_bytes> payload{};
    for (int round = 0; round < 5; ++round) {
        // Frames of a whole line: as many as there are lines.
        std::uint32_t frames = 0;
        while (writer.reserve(max_inline_bytes)) {
            writer.publish(FrameKind::Inline, 0, payload.data(), max_inline_bytes, frames++);
            ASSERT_LE(frames, GetParam().lines);
        }
        // What the reader has not told of yet is less than a quarter.
        EXPECT_GT(frames, GetParam().lines * 3 / 4);
        if (round == 0) {
            EXPECT_EQ(frames, GetParam().lines);
        }
        FrameHeader frame;
        for (std::uint32_t i = 0; i < frames; ++i) {
            ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
            EXPECT_EQ(frame.argument, i);
            reader.advance(frame);
        }
        EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
    }
}

TEST_P(Channel, CarriesEverythingBetweenThreads) {
    const GuardedMemory memory(geometry().direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry());
    const std::uint64_t frames = repeated(GetParam().ring > 32768 ? 2000 : 20000);
    const Deadline deadline = Deadline::after_milliseconds(60000);
    std::thread sender([&] {
        StreamProducer producer(direction, 99, longest_chunk());
        while (producer.written < frames && !deadline.expired())
            if (!producer.step()) sched_yield();
    });
    StreamConsumer consumer(direction, 99, longest_chunk());
    while (consumer.taken < frames && !deadline.expired()) {
        const auto step = consumer.step();
        if (step == StreamConsumer::Step::Wrong) break;
        if (step == StreamConsumer::Step::Nothing) sched_yield();
    }
    sender.join();
    EXPECT_EQ(consumer.taken, frames);
}

// ---- Cells ---------------------------------------------------------------------------------

/// Before a line is left every cell of it says which lap it is of, so that none looks new when its
/// lap bit comes round again.
TEST_P(Channel, EveryCellIsWrittenInEveryLap) {
    const GuardedMemory memory(geometry().direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry());
    ChannelWriter writer(direction);
    ChannelReader reader(direction);
    Random random(GetParam().lines);
    const std::array<std::byte, max_inline_bytes> payload{};
    std::uint64_t line = 0;  // where the next frame goes, as the writer must see it
    std::uint32_t cell = 0;
    std::uint64_t pads = 0;
    const auto check_line = [&](std::uint64_t number) {
        const bool lap = number / GetParam().lines % 2 == 0;
        const FrameLine& left = direction.lines[number % GetParam().lines];
        for (std::uint32_t i = 0; i < line_cells;) {
            const std::uint64_t word = left.cells[i].header.load();
            ASSERT_TRUE(is_present(word, lap)) << "line " << number << " cell " << i;
            const FrameHeader header = decode(word);
            ASSERT_TRUE(is_sound(header, i));
            if (header.kind == FrameKind::Pad) {
                ASSERT_EQ(header.cells, 1) << "a pad is one cell";
                ASSERT_NE(i, 0U) << "a whole line is never padded";
                ++pads;
            }
            for (std::uint32_t further = 1; further < header.cells; ++further)
                ASSERT_TRUE(is_continuation(left.cells[i + further].header.load(), lap));
            i += header.cells;
        }
    };
    const std::uint64_t laps = 6;
    const std::uint32_t rounds = static_cast<std::uint32_t>(laps * GetParam().lines * line_cells);
    for (std::uint32_t i = 0; i < rounds && line < laps * GetParam().lines; ++i) {
        const std::uint32_t bytes = random.between(0, max_inline_bytes);
        ASSERT_TRUE(writer.reserve(bytes)) << "the reader keeps pace";
        if (cell + cells_for(bytes) > line_cells) {
            ASSERT_NO_FATAL_FAILURE(check_line(line));
            ++line;
            cell = 0;
        }
        writer.publish(FrameKind::Inline, 0, payload.data(), bytes, i);
        const bool lap = line / GetParam().lines % 2 == 0;
        ASSERT_TRUE(
            is_present(direction.lines[line % GetParam().lines].cells[cell].header.load(), lap));
        cell += cells_taken(cell, bytes);
        if (cell == line_cells) {
            ASSERT_NO_FATAL_FAILURE(check_line(line));
            ++line;
            cell = 0;
        }
        FrameHeader frame;
        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
        ASSERT_EQ(frame.argument, i);
        reader.advance(frame);
        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
    }
    EXPECT_GE(line, 3 * GetParam().lines);
    EXPECT_GT(pads, 0U);
}

// ---- The byte ring -------------------------------------------------------------------------

TEST_P(Channel, NoChunkLiesWhereAnotherIsUnderWay) {
    std::uint32_t full = 0;
    for (std::uint64_t seed = 1; seed <= seeds(40); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(geometry().direction_bytes, edge_of(seed));
        Ledger ledger(Direction::at(memory.data(), geometry()), memory);
        Random random(seed);
        std::size_t lag = 0;  // how many chunks the consumer is behind
        std::uint32_t most = 1;
        for (int step = 0; step < 400; ++step) {
            if (step % 30 == 0) {
                // At first it takes something only when there is no room any more.
                lag = step < 150 ? 1000 : random.one_in(2) ? random.below(8) : random.below(200);
                most = random.one_in(2) ? longest_chunk() : random.between(1, longest_chunk());
            }
            const std::uint32_t bytes = random.one_in(4) ? random.between(1, most) : most;
            while (ledger.under_way.size() > lag)
                ASSERT_TRUE(ledger.take());
            while (!ledger.put(bytes)) {
                ASSERT_FALSE(HasFailure());
                ++full;
                if (!ledger.under_way.empty()) {
                    ASSERT_TRUE(ledger.take());
                    continue;
                }
                ledger.reader.publish_the_rest();
                ASSERT_TRUE(ledger.put(bytes)) << "no room for " << bytes << " bytes";
                break;
            }
        }
        ledger.take_all();
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(full, 0U);
}

/// Whatever went before: when all of it was taken and the reader has nothing more to do, even the
/// longest chunk finds room, though the reader tells of its progress only now and then.
TEST_P(Channel, TheLongestChunkFindsRoomInTheEnd) {
    for (std::uint64_t seed = 1; seed <= seeds(300); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(geometry().direction_bytes, edge_of(seed));
        Ledger ledger(Direction::at(memory.data(), geometry()), memory);
        Random random(seed);
        for (int phase = 0; phase < 6; ++phase) {
            // Small ones, so that little of what was taken was told, at any place of the ring.
            const std::uint32_t most = random.between(1, std::min(400U, longest_chunk()));
            const std::uint32_t count = random.between(0, 3 * 8192 / round_to_line(most));
            for (std::uint32_t i = 0; i < count; ++i) {
                ASSERT_TRUE(ledger.put(random.between(1, most)));
                ASSERT_TRUE(ledger.take());
            }
            ledger.reader.publish_the_rest();
            ASSERT_TRUE(ledger.put(longest_chunk())) << "phase " << phase;
            ASSERT_TRUE(ledger.take());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Channel,
    testing::Values(Shape{"Tiny", 8, least_ring_bytes}, Shape{"Odd", 16, 1024 + 64 * 3},
                    Shape{"Small", 8, 4096 - 256 - 8 * 64}, Shape{"First", 32, 8192},
                    Shape{"Grown", 32, 8192 + 64}, Shape{"Default", 32, 131072 - 256 - 32 * 64},
                    Shape{"ManyLines", 1024, 4096}, Shape{"LongRing", 8, 1U << 16},
                    Shape{"Largest", 32, max_ring_bytes}),
    [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
