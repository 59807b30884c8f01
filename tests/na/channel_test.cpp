// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/channel.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "base/clock.hpp"
#include "na/shm/frame_stream.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;
using via::base::Deadline;

namespace {

constexpr std::uint32_t direction_bytes(std::uint32_t lines, std::uint32_t ring) {
    return static_cast<std::uint32_t>(sizeof(DirectionControl)) +
           lines * static_cast<std::uint32_t>(sizeof(FrameLine)) + ring;
}

TEST(Geometry, SaysWhatIsSound) {
    EXPECT_TRUE((Geometry{8, direction_bytes(8, 1024)}.sound()));
    EXPECT_TRUE((Geometry{32, 16384}.sound()));
    EXPECT_TRUE((Geometry{4096, 64U << 20}.sound()));
    EXPECT_FALSE((Geometry{0, 16384}.sound()));
    EXPECT_FALSE((Geometry{4, 16384}.sound()));
    EXPECT_FALSE((Geometry{33, 16384}.sound()));
    EXPECT_FALSE((Geometry{8192, 64U << 20}.sound()));
    EXPECT_FALSE((Geometry{0x80000000U, 16384}.sound()));
    EXPECT_FALSE((Geometry{8, direction_bytes(8, 1024) - 64}.sound()));
    EXPECT_FALSE((Geometry{8, 16384 + 1}.sound()));
    EXPECT_FALSE((Geometry{8, (64U << 20) + 64}.sound()));
    EXPECT_FALSE((Geometry{8, 0}.sound()));
    EXPECT_FALSE((Geometry{8, 0xFFFFFFC0U}.sound()));
    EXPECT_EQ((Geometry{8, direction_bytes(8, 1024)}.ring_bytes()), 1024U);
    EXPECT_EQ((Geometry{4096, 64U << 20}.channel_bytes()), 128U << 20);
}

TEST(CopySmall, CopiesJustThat) {
    std::array<std::byte, 128> from;
    fill_pattern(from, 1);
    for (std::size_t bytes = 0; bytes <= 64; ++bytes)
        for (std::size_t source = 0; source < 8; ++source)
            for (std::size_t target = 0; target < 8; ++target) {
                std::array<std::byte, 128> to;
                fill_pattern(to, 2);
                copy_small(to.data() + 16 + target, from.data() + source, bytes);
                EXPECT_EQ(matching_bytes(std::span(to).first(16 + target), 2), 16 + target);
                EXPECT_EQ(matching_bytes(std::span(to).subspan(16 + target, bytes), 1, source),
                          bytes);
                const std::size_t behind = 16 + target + bytes;
                EXPECT_EQ(matching_bytes(std::span(to).subspan(behind), 2, behind),
                          to.size() - behind);
            }
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
    /// The largest chunk that a writer may wait for: the consumer tells of every quarter.
    [[nodiscard]] std::uint32_t max_chunk() const { return GetParam().ring / 2; }
};

TEST_P(Channel, CarriesEverythingInTurns) {
    ASSERT_TRUE(geometry().sound());
    for (std::uint64_t seed = 1; seed <= repeated(30); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(geometry().direction_bytes, seed % 2 == 0
                                                                   ? GuardedMemory::Edge::Front
                                                                   : GuardedMemory::Edge::Back);
        const Direction direction = Direction::at(memory.data(), geometry());
        StreamProducer producer(direction, seed, max_chunk());
        StreamConsumer consumer(direction, seed, max_chunk());
        Random random(seed);
        // Now the one is ahead, now the other, now both keep pace.
        const std::uint64_t frames = std::min<std::uint64_t>(8 * 4 * GetParam().lines, 3000) + 500;
        while (consumer.taken < frames) {
            const std::uint32_t burst = random.between(1, random.one_in(3) ? 4000 : 5);
            for (std::uint32_t i = 0; i < burst && producer.step(); ++i) {
            }
            const std::uint32_t appetite = random.between(1, random.one_in(3) ? 4000 : 5);
            for (std::uint32_t i = 0; i < appetite; ++i) {
                const auto step = consumer.step();
                ASSERT_NE(step, StreamConsumer::Step::Wrong);
                if (step == StreamConsumer::Step::Nothing) {
                    ASSERT_EQ(consumer.taken, producer.written);
                    break;
                }
            }
        }
        EXPECT_GT(producer.frames_full + producer.ring_full, 0U);
        EXPECT_GT(consumer.in_place_chunks, 0U);
        EXPECT_GT(consumer.wrapped_chunks, 0U);
    }
}

TEST_P(Channel, NeverHoldsMoreThanItsRings) {
    const GuardedMemory memory(geometry().direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry());
    ChannelWriter writer(direction);
    ChannelReader reader(direction);
    for (int round = 0; round < 5; ++round) {
        // Frames of a whole line: as many as there are lines.
        std::uint32_t frames = 0;
        while (writer.reserve(max_inline_bytes) != nullptr) {
            writer.publish(FrameKind::Inline, 0, max_inline_bytes, frames++);
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
        StreamProducer producer(direction, 99, max_chunk());
        while (producer.written < frames && !deadline.expired())
            if (!producer.step()) sched_yield();
    });
    StreamConsumer consumer(direction, 99, max_chunk());
    while (consumer.taken < frames && !deadline.expired()) {
        const auto step = consumer.step();
        if (step == StreamConsumer::Step::Wrong) break;
        if (step == StreamConsumer::Step::Nothing) sched_yield();
    }
    sender.join();
    EXPECT_EQ(consumer.taken, frames);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Channel,
                         testing::Values(Shape{"Tiny", 8, 1024}, Shape{"Odd", 16, 1024 + 64 * 3},
                                         Shape{"Default", 32, 16384 - 256 - 32 * 64},
                                         Shape{"ManyLines", 1024, 4096},
                                         Shape{"LongRing", 8, 1U << 16}),
                         [](const auto& shape) { return std::string(shape.param.name); });

TEST(ChannelWriter, PadsALineThatCanNotHoldTheNextFrame) {
    const Geometry geometry{8, direction_bytes(8, 1024)};
    const GuardedMemory memory(geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry);
    ChannelWriter writer(direction);
    ASSERT_NE(writer.reserve(8), nullptr);
    writer.publish(FrameKind::Inline, 0, 8, 1);
    ASSERT_NE(writer.reserve(max_inline_bytes), nullptr);
    writer.publish(FrameKind::Inline, 0, max_inline_bytes, 2);
    const FrameHeader pad = decode(direction.lines[0].cells[1].header.load());
    EXPECT_EQ(pad.kind, FrameKind::Pad);
    EXPECT_EQ(pad.cells, 3);
    ChannelReader reader(direction);
    reader.watch();
    FrameHeader frame;
    ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
    EXPECT_EQ(frame.argument, 1U);
    reader.advance(frame);
    EXPECT_TRUE(reader.arrival_visible());
    ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
    EXPECT_EQ(frame.argument, 2U);
    reader.advance(frame);
    EXPECT_FALSE(reader.arrival_visible());
    EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
}

// ---- A hostile other side ------------------------------------------------------------------

std::uint64_t garbage(Random& random, std::uint64_t near) {
    switch (random.below(6)) {
        case 0:
            return random.next();
        case 1:
            return near + random.below(200) - 100;
        case 2:
            return 0;
        case 3:
            return ~std::uint64_t{0};
        case 4:
            return near / 64 * 64 + 64ULL * random.below(40) - 64 * 20;
        default:
            return near;
    }
}

/// Whatever stands in the consumer's counters: the writer stays inside its rings, never has more
/// under way than they hold, and believes no impossible number.
TEST(HostileConsumer, MovesTheWriterNowhere) {
    const Geometry geometry{16, direction_bytes(16, 2048)};
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(geometry.direction_bytes, seed % 2 == 0
                                                                 ? GuardedMemory::Edge::Front
                                                                 : GuardedMemory::Edge::Back);
        const Direction direction = Direction::at(memory.data(), geometry);
        ChannelWriter writer(direction);
        Random random(seed);
        std::uint64_t bytes_put = 0;
        std::uint64_t bytes_believed = 0;
        const std::vector<std::byte> data(2048);
        for (int step = 0; step < 500; ++step) {
            const std::uint64_t lines = garbage(random, static_cast<std::uint64_t>(step));
            const std::uint64_t bytes = garbage(random, bytes_put);
            direction.control->consumed.lines.store(lines);
            direction.control->consumed.bytes.store(bytes);
            const std::uint32_t free = writer.ring_free_refreshed();
            if (bytes >= bytes_believed && bytes <= bytes_put && bytes % 64 == 0)
                bytes_believed = bytes;
            ASSERT_EQ(free, 2048 - (bytes_put - bytes_believed));
            const std::uint32_t payload = random.between(0, max_inline_bytes);
            std::byte* to = writer.reserve(payload);
            if (to == nullptr) continue;
            ASSERT_TRUE(memory.contains(to, payload));
            ASSERT_GE(to, reinterpret_cast<std::byte*>(direction.lines));
            ASSERT_LE(to + payload, direction.ring);
            std::memcpy(to, data.data(), payload);
            if (free != 0 && random.one_in(2)) {
                const std::uint32_t chunk = random.between(1, free);
                writer.put(0, data.data(), chunk);
                writer.chunk_done(chunk);
                bytes_put += ChannelWriter::round_to_line(chunk);
            }
            writer.publish(FrameKind::Inline, 0, payload, 0);
        }
    }
}

/// With counters that never move, the writer stops when its rings are full, whatever else is there.
TEST(HostileConsumer, ThatTakesNothingStopsTheWriter) {
    const Geometry geometry{8, direction_bytes(8, 1024)};
    const GuardedMemory memory(geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry);
    direction.control->consumed.lines.store(1000);
    direction.control->consumed.bytes.store(1000 * 64);
    StreamProducer producer(direction, 1, 512);
    for (int i = 0; i < 10000; ++i)
        producer.step();
    EXPECT_LE(producer.written, 8U * line_cells);
    EXPECT_GT(producer.written, 0U);
}

/// Takes frames as an endpoint does, checking that nothing leads outside.
void read_hostile_channel(ChannelReader& reader, const GuardedMemory& memory,
                          const Geometry& geometry, int most) {
    std::vector<std::byte> taken(geometry.ring_bytes());
    FrameHeader frame;
    for (int i = 0; i < most; ++i) {
        [[maybe_unused]] const bool visible = reader.arrival_visible();
        const auto look = reader.look(frame);
        if (look != ChannelReader::Look::Frame) return;
        ASSERT_NE(frame.kind, FrameKind::Pad);
        ASSERT_TRUE(memory.contains(reader.payload(), frame.length));
        std::array<std::byte, max_inline_bytes> copy;
        ASSERT_LE(frame.length, copy.size());
        std::memcpy(copy.data(), reader.payload(), frame.length);
        std::uint32_t chunk = 0;
        std::memcpy(&chunk, copy.data(), std::min<std::size_t>(frame.length, 4));
        if (reader.chunk_sound(chunk)) {
            const std::uint32_t split = frame.argument % (chunk + 1);
            reader.take(0, taken.data(), split);
            reader.take(split, taken.data() + split, chunk - split);
            const std::byte* in_place = reader.chunk_in_place(chunk);
            ASSERT_TRUE(in_place == nullptr || memory.contains(in_place, chunk));
            reader.chunk_done(chunk);
        }
        reader.advance(frame);
    }
}

TEST(HostileProducer, LeadsTheReaderNowhere) {
    const Geometry geometry{8, direction_bytes(8, 1024)};
    for (std::uint64_t seed = 1; seed <= repeated(2000); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(geometry.direction_bytes, seed % 2 == 0
                                                                 ? GuardedMemory::Edge::Front
                                                                 : GuardedMemory::Edge::Back);
        const Direction direction = Direction::at(memory.data(), geometry);
        ChannelReader reader(direction);
        reader.watch();
        Random random(seed);
        for (int round = 0; round < 8; ++round) {
            // Pure noise, or headers that are as good as they can be at any place, of either lap.
            if (seed % 4 == 0) {
                for (std::byte& byte : memory.span())
                    byte = static_cast<std::byte>(random.next());
            } else {
                const bool lap = random.one_in(2);
                for (std::uint32_t line = 0; line < geometry.frame_lines; ++line)
                    for (std::uint32_t cell = 0; cell < line_cells; ++cell) {
                        Cell& target = direction.lines[line].cells[cell];
                        const FrameHeader header{
                            static_cast<FrameKind>(random.below(seed % 4 == 1 ? 32 : 15)),
                            static_cast<std::uint8_t>(random.between(1, 4)),
                            static_cast<std::uint8_t>(random.next()),
                            static_cast<std::uint16_t>(random.one_in(10)
                                                           ? random.next()
                                                           : random.below(max_inline_bytes + 1)),
                            static_cast<std::uint32_t>(random.next())};
                        target.header.store(encode(header, random.one_in(20) ? !lap : lap));
                        const std::uint64_t words = garbage(random, 1024);
                        std::memcpy(target.payload.data(), &words, 8);
                    }
            }
            read_hostile_channel(reader, memory, geometry, 200);
            if (HasFatalFailure()) return;
        }
    }
}

// An honest writer pads what is left behind a frame, never a whole line. A reader that took such
// pads could be kept running in circles by a peer that writes them fast enough.
TEST(HostileProducer, CanNotSendTheReaderInCircles) {
    const Geometry geometry{8, direction_bytes(8, 1024)};
    const GuardedMemory memory(geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry);
    for (std::uint32_t line = 0; line < geometry.frame_lines; ++line)
        direction.lines[line].cells[0].header.store(encode({FrameKind::Pad, 4, 0, 0, 0}, true));
    ChannelReader reader(direction);
    FrameHeader frame;
    EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nonsense);
}

TEST(HostileProducer, WritingWhileTheReaderReadsLeadsItNowhere) {
    const Geometry geometry{8, direction_bytes(8, 1024)};
    const GuardedMemory memory(geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), geometry);
    const Deadline deadline = Deadline::after_milliseconds(60000);
    std::atomic<bool> stop{false};
    std::thread vandal([&] {
        Random random(5);
        while (!stop.load() && !deadline.expired()) {
            const std::uint32_t line = random.below(geometry.frame_lines);
            const std::uint32_t cell = random.below(line_cells);
            const FrameHeader header{static_cast<FrameKind>(random.below(16)),
                                     static_cast<std::uint8_t>(random.between(1, 4)), 0,
                                     static_cast<std::uint16_t>(random.below(70)),
                                     static_cast<std::uint32_t>(random.next())};
            // Headers only: they are atomic, so that the tools that look for races stay silent.
            direction.lines[line].cells[cell].header.store(encode(header, random.one_in(2)));
        }
    });
    std::uint32_t seen = 0;
    const std::uint32_t wanted = repeated(50000);
    while (seen < wanted && !deadline.expired()) {
        ChannelReader reader(direction);
        reader.watch();
        FrameHeader frame;
        for (int n = 0; n < 20; ++n) {
            if (reader.look(frame) != ChannelReader::Look::Frame) break;
            if (!memory.contains(reader.payload(), frame.length)) ADD_FAILURE();
            reader.advance(frame);
            ++seen;
        }
    }
    stop = true;
    vandal.join();
    EXPECT_GE(seen, wanted);
}

}  // namespace
