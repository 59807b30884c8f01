// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/channel.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <deque>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "na/seeded.hpp"
#include "na/shm/frame_stream.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;
using via::base::Deadline;

namespace {

constexpr std::uint32_t ring_bytes_of_all = ChannelWriter::ring_bytes_of_all;

/// Each takes one cell.
void pass_empty_frames(ChannelWriter& writer, ChannelReader& reader, std::uint32_t count) {
    FrameHeader frame;
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_TRUE(writer.reserve(0));
        writer.publish(FrameKind::Inline, 0, nullptr, 0, 0);
        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
        reader.advance(frame);
    }
}

/// The cells of the next frame when `cell` of the line are taken: what it leaves of its line is its
/// own if no other of its length fits there.
std::uint32_t cells_taken(std::uint32_t cell, std::uint32_t bytes) {
    const std::uint32_t cells = cells_for(bytes);
    const std::uint32_t left = cell + cells > line_cells ? line_cells : line_cells - cell;
    return cells != 1 && left < 2 * cells ? left : cells;
}

constexpr std::uint32_t direction_bytes(std::uint32_t lines, std::uint32_t ring) {
    return static_cast<std::uint32_t>(sizeof(DirectionControl)) +
           lines * static_cast<std::uint32_t>(sizeof(FrameLine)) + ring;
}

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

GuardedMemory::Edge edge_of(std::uint64_t seed) {
    return seed % 2 == 0 ? GuardedMemory::Edge::Front : GuardedMemory::Edge::Back;
}

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

/// Chunks and for each the smallest frame that can name it. What is under way is known, and that
/// nothing is put where something still lies.
class Ledger {
  public:
    Ledger(const Direction& direction, const GuardedMemory& memory)
        : writer(direction), reader(direction), direction_(direction), memory_(memory) {}

    /// False: there is no room. All chunks have other bytes.
    bool put(std::uint32_t bytes) {
        const auto place = writer.find_place(bytes);
        if (place.at == nullptr || !writer.reserve(sizeof place.chunk)) return false;
        const std::uint32_t first = place.chunk.line * 64U;
        const std::uint32_t end = first + round_to_line(bytes);
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
        writer.publish(FrameKind::First, 0, &place.chunk, sizeof place.chunk, 0);
        under_way.push_back({first, end, number_++});
        bytes_put += round_to_line(bytes);
        highest = std::max(highest, end);
        return !testing::Test::HasFailure();
    }
    bool take() {
        FrameHeader frame;
        RingChunk named;
        EXPECT_EQ(reader.look(frame), ChannelReader::Look::Frame);
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
    ChannelWriter writer;
    ChannelReader reader;
    std::deque<Chunk> under_way;
    std::uint64_t bytes_put = 0;
    std::uint32_t highest = 0;  ///< how much of the ring was ever used

  private:
    const Direction direction_;
    const GuardedMemory& memory_;
    std::uint64_t number_ = 1;
};

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

// ---- Frames --------------------------------------------------------------------------------

constexpr Geometry small_geometry{8, direction_bytes(8, 1024)};

TEST(ChannelWriter, PadsALineThatCanNotHoldTheNextFrame) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    ChannelWriter writer(direction);
    const std::array<std::byte, max_inline_bytes> payload{};
    ASSERT_TRUE(writer.reserve(8));
    writer.publish(FrameKind::Inline, 0, payload.data(), 8, 1);
    for (std::uint32_t cell = 1; cell < line_cells; ++cell)
        EXPECT_EQ(direction.lines[0].cells[cell].header.load(), 0U) << "room for the next frame";
    ASSERT_TRUE(writer.reserve(max_inline_bytes));
    writer.publish(FrameKind::Inline, 0, payload.data(), max_inline_bytes, 2);
    for (std::uint32_t cell = 1; cell < line_cells; ++cell) {
        const FrameHeader pad = decode(direction.lines[0].cells[cell].header.load());
        EXPECT_EQ(pad.kind, FrameKind::Pad);
        EXPECT_EQ(pad.cells, 1);
    }
    ChannelReader reader(direction);
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

/// Payloads of every length at every cell: not a byte outside is read where they come from or
/// written where they go to.
TEST(ChannelWriter, CarriesJustThePayload) {
    for (const auto edge : {GuardedMemory::Edge::Front, GuardedMemory::Edge::Back}) {
        const GuardedMemory memory(small_geometry.direction_bytes);
        const GuardedMemory source(64, edge);
        const GuardedMemory target(64, edge);
        const Direction direction = Direction::at(memory.data(), small_geometry);
        for (std::uint32_t before = 0; before < line_cells; ++before)
            for (std::uint32_t bytes = 0; bytes <= max_inline_bytes; ++bytes) {
                SCOPED_TRACE(std::to_string(bytes) + " bytes behind " + std::to_string(before));
                std::memset(memory.data(), 0, memory.size());
                ChannelWriter writer(direction);
                ChannelReader reader(direction);
                FrameHeader frame;
                ASSERT_NO_FATAL_FAILURE(pass_empty_frames(writer, reader, before));
                const std::size_t rest = edge == GuardedMemory::Edge::Front ? 0 : 64 - bytes;
                std::byte* from = source.data() + rest;
                fill_pattern({from, bytes}, bytes);
                ASSERT_TRUE(writer.reserve(bytes));
                writer.publish(FrameKind::Inline, 3, from, bytes, 4);
                ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
                ASSERT_EQ(frame.length, bytes);
                ASSERT_EQ(frame.cells, cells_taken(before, bytes));
                // Any first part of it, too.
                for (std::uint32_t part = 0; part <= bytes; ++part) {
                    std::byte* to = edge == GuardedMemory::Edge::Front ? target.data()
                                                                       : target.data() + 64 - part;
                    fill_pattern(target.span(), 77);
                    reader.read_payload(to, part);
                    ASSERT_EQ(matching_bytes({to, part}, bytes), part);
                    const auto front = static_cast<std::size_t>(to - target.data());
                    ASSERT_EQ(matching_bytes(target.span().first(front), 77), front);
                    ASSERT_EQ(matching_bytes(target.span().subspan(front + part), 77, front + part),
                              64 - front - part);
                }
            }
    }
}

/// The same by whole words.
TEST(ChannelWriter, CarriesWordsAsItCarriesBytes) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    for (std::uint32_t before = 0; before < line_cells; ++before)
        for (std::uint32_t bytes = 0; bytes <= max_inline_bytes; ++bytes) {
            SCOPED_TRACE(std::to_string(bytes) + " bytes behind " + std::to_string(before));
            std::memset(memory.data(), 0, memory.size());
            ChannelWriter writer(direction);
            ChannelReader reader(direction);
            FrameHeader frame;
            ASSERT_NO_FATAL_FAILURE(pass_empty_frames(writer, reader, before));
            std::array<std::uint64_t, line_words> sent{}, got;
            fill_pattern(std::as_writable_bytes(std::span(sent)).first(bytes), bytes);
            ASSERT_TRUE(writer.reserve(bytes));
            writer.publish_words(FrameKind::Inline, 3, sent.data(), bytes, 4);
            ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
            ASSERT_EQ(frame.length, bytes);
            ASSERT_EQ(frame.cells, cells_taken(before, bytes));
            ASSERT_EQ(frame.flags, 3);
            ASSERT_EQ(frame.argument, 4U);
            got.fill(~std::uint64_t{0});
            reader.read_words(got.data(), frame.cells);
            ASSERT_EQ(matching_bytes(std::as_bytes(std::span(got)).first(bytes), bytes), bytes);
            std::array<std::byte, max_inline_bytes> plainly{};
            reader.read_payload(plainly.data(), bytes);
            ASSERT_EQ(matching_bytes(std::span(plainly).first(bytes), bytes), bytes);
        }
}

/// The cells of a frame become visible in any order. All of them must be there before it is shown,
/// and nothing that was in a cell before passes for what is missing.
TEST(ChannelReader, ShowsAFrameOnlyWhenAllOfItIsThere) {
    Random random(4);
    for (std::uint32_t cells = 2; cells <= line_cells; ++cells)
        for (std::uint32_t missing = 1; missing < 1U << (cells - 1); ++missing)
            for (std::uint32_t first = 0; first + cells <= line_cells; ++first)
                for (std::uint64_t laps = 0; laps < 3; ++laps) {
                    const bool lap = laps % 2 == 0;
                    const GuardedMemory memory(small_geometry.direction_bytes);
                    const Direction direction = Direction::at(memory.data(), small_geometry);
                    ChannelWriter writer(direction);
                    ChannelReader reader(direction);
                    FrameHeader frame;
                    std::array<std::byte, max_inline_bytes> payload;
                    fill_pattern(payload, 1);
                    const auto pass = [&](std::uint32_t bytes) {
                        ASSERT_TRUE(writer.reserve(bytes));
                        writer.publish(FrameKind::Inline, 0, payload.data(), bytes, 0);
                        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
                        reader.advance(frame);
                    };
                    for (std::uint64_t i = 0; i < laps * small_geometry.frame_lines; ++i)
                        ASSERT_NO_FATAL_FAILURE(pass(max_inline_bytes));
                    for (std::uint32_t i = 0; i < first; ++i)
                        ASSERT_NO_FATAL_FAILURE(pass(0));
                    Cell* at = &direction.lines[0].cells[first];
                    std::array<std::uint64_t, 2 * line_cells> old{};
                    for (std::uint32_t i = 0; i < cells; ++i) {
                        old[2 * i] = at[i].payload.load();
                        old[2 * i + 1] = at[i].header.load();
                    }
                    fill_pattern(payload, 2);
                    const std::uint32_t bytes = payload_of_cells(cells);
                    ASSERT_TRUE(writer.reserve(bytes));
                    writer.publish(FrameKind::Inline, 0, payload.data(), bytes, 9);
                    // What a hostile peer may leave in the place of a further cell.
                    const std::uint64_t lies[] = {
                        0,
                        encode_tag(FrameKind::Continuation, 1, !lap),
                        encode_tag(FrameKind::Pad, 1, lap),
                        encode_tag(FrameKind::Inline, 1, lap),
                        encode({FrameKind::Inline, 1, 0, 8, 0}, lap),
                        random.next() & payload_of_tagged_word,
                    };
                    std::array<std::uint64_t, line_cells> real{};
                    for (std::uint32_t i = 0; i + 1 < cells; ++i)
                        if ((missing >> i & 1) != 0) real[i] = at[i + 1].header.load();
                    const auto hide = [&](auto what) {
                        for (std::uint32_t i = 0; i + 1 < cells; ++i)
                            if ((missing >> i & 1) != 0) at[i + 1].header.store(what(i + 1));
                    };
                    for (const std::uint64_t lie : lies) {
                        hide([&](std::uint32_t) { return lie; });
                        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Nothing) << lie;
                    }
                    hide([&](std::uint32_t i) { return old[2 * i + 1]; });
                    ASSERT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
                    EXPECT_TRUE(reader.arrival_visible()) << "its first cell can be seen";
                    // They come one after the other; the last completes the frame.
                    for (std::uint32_t i = 0; i + 1 < cells; ++i) {
                        if ((missing >> i & 1) == 0) continue;
                        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
                        at[i + 1].header.store(real[i]);
                    }
                    ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
                    EXPECT_EQ(frame.argument, 9U);
                    ASSERT_EQ(frame.length, bytes);
                    std::array<std::byte, max_inline_bytes> got;
                    reader.read_payload(got.data(), bytes);
                    EXPECT_EQ(matching_bytes(std::span(got).first(bytes), 2), bytes);
                    reader.advance(frame);
                    EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
                }
}

/// Without its first cell a frame is not there, whatever of the rest is.
TEST(ChannelReader, WaitsForTheFirstCell) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    ChannelWriter writer(direction);
    ChannelReader reader(direction);
    std::array<std::byte, max_inline_bytes> payload;
    fill_pattern(payload, 3);
    ASSERT_TRUE(writer.reserve(max_inline_bytes));
    writer.publish(FrameKind::Inline, 0, payload.data(), max_inline_bytes, 9);
    Cell& first = direction.lines[0].cells[0];
    const std::uint64_t word = first.header.exchange(0);
    FrameHeader frame;
    EXPECT_FALSE(reader.arrival_visible());
    EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nothing);
    first.header.store(word);
    EXPECT_TRUE(reader.arrival_visible());
    EXPECT_EQ(reader.look(frame), ChannelReader::Look::Frame);
}

/// One number tells every kind that is alone in its cell, in either lap, from all else.
TEST(ChannelReader, KnowsAtAGlanceWhatStandsThere) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    ChannelWriter writer(direction);
    ChannelReader reader(direction);
    Cell& cell = direction.lines[0].cells[0];
    for (const bool lap : {true, false}) {
        for (std::uint64_t tag = 0; tag <= 0xFF; ++tag) {
            const std::uint64_t word = tag << tag_shift | 0x00010008DEADBEEF;
            cell.header.store(word);
            std::uint64_t seen = 0;
            const std::uint64_t there = reader.peek(seen);
            EXPECT_EQ(seen, word);
            EXPECT_EQ(ChannelReader::is_arrival(there), is_present(word, lap)) << tag;
            EXPECT_EQ(reader.arrival_visible(), is_present(word, lap)) << tag;
            for (unsigned kind = 1; kind < 32; ++kind)
                EXPECT_EQ(there == kind, tag == (kind | (lap ? 0x20U : 0U))) << tag;
        }
        cell.payload.store(0x0123456789ABCDEF);
        EXPECT_EQ(reader.small_payload(), 0x0123456789ABCDEFU);
        // Once around.
        const std::array<std::byte, max_inline_bytes> payload{};
        for (std::uint32_t i = 0; i < small_geometry.frame_lines; ++i) {
            FrameHeader frame;
            ASSERT_TRUE(writer.reserve(max_inline_bytes));
            writer.publish(FrameKind::Inline, 0, payload.data(), max_inline_bytes, 0);
            ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
            reader.advance(frame);
        }
    }
}

/// What was taken is told in the end, once, and no more than that.
TEST(ChannelReader, TellsTheRestWhenAsked) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    auto& told = direction.control->consumed;
    Ledger ledger(direction, memory);
    for (int i = 0; i < 8; ++i)
        ASSERT_TRUE(ledger.put(128));
    ledger.reader.publish_the_rest();
    EXPECT_EQ(told.chunks.load(), 0U) << "nothing was taken";
    ledger.take_all();
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(told.chunks.load(), 8U) << "each of these is an eighth of the ring";
    ASSERT_TRUE(ledger.put(1));
    ASSERT_TRUE(ledger.put(1));
    ASSERT_TRUE(ledger.take());
    EXPECT_EQ(told.chunks.load(), 8U);
    ledger.reader.publish_the_rest();
    EXPECT_EQ(told.chunks.load(), 9U);
    EXPECT_EQ(told.lines.load(), 2U);
    // Without news nothing is written.
    told.chunks.store(77);
    ledger.reader.publish_the_rest();
    EXPECT_EQ(told.chunks.load(), 77U);
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
            return near + random.below(8) - 4;
        default:
            return near;
    }
}

/// Whatever stands in the consumer's counters: the writer stays inside its rings, never has more
/// under way than they hold, and believes no impossible number.
TEST(HostileConsumer, MovesTheWriterNowhere) {
    for (std::uint64_t seed = 1; seed <= repeated(300); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const std::uint32_t ring = seed % 3 == 0 ? 2048 : seed % 3 == 1 ? 1024 + 192 : 40960;
        const Geometry geometry{16, direction_bytes(16, ring)};
        const GuardedMemory memory(geometry.direction_bytes, edge_of(seed));
        const Direction direction = Direction::at(memory.data(), geometry);
        ChannelWriter writer(direction);
        Random random(seed);
        const std::array<std::byte, max_inline_bytes> data{};
        // Where the writer must be, and the most that it can have been made to believe.
        std::uint64_t line = 0, lines_believed = 0, chunks_believed = 0;
        std::uint32_t cell = 0;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> chunks;
        std::uint32_t frames = 0, places = 0;
        for (int step = 0; step < 500; ++step) {
            const std::uint64_t lines_said = garbage(random, line);
            const std::uint64_t chunks_said = garbage(random, chunks.size());
            direction.control->consumed.lines.store(lines_said);
            direction.control->consumed.chunks.store(chunks_said);
            // What is impossible now may be possible a moment later.
            const auto believe = [&] {
                if (lines_said <= line) lines_believed = std::max(lines_believed, lines_said);
                if (chunks_said <= chunks.size())
                    chunks_believed = std::max(chunks_believed, chunks_said);
            };
            believe();
            if (random.one_in(2)) {
                const std::uint32_t bytes = random.between(1, writer.longest_chunk());
                const auto place = writer.find_place(bytes);
                if (place.at != nullptr) {
                    const std::uint32_t first = place.chunk.line * 64U;
                    const std::uint32_t end = first + round_to_line(bytes);
                    ASSERT_EQ(place.at, direction.ring + first);
                    ASSERT_EQ(place.chunk.bytes, bytes);
                    ASSERT_LE(end, ring);
                    for (std::size_t i = chunks_believed; i < chunks.size(); ++i)
                        ASSERT_TRUE(end <= chunks[i].first || chunks[i].second <= first)
                            << "chunk " << i << " is not taken yet";
                    std::memset(place.at, 0xFF, bytes);
                    writer.take_place(place);
                    chunks.emplace_back(first, end);
                    ++places;
                    believe();
                }
                ASSERT_LE(chunks.size() - chunks_believed, 16U * line_cells);
            }
            const std::uint32_t payload = random.between(0, max_inline_bytes);
            // Publishes to where the lines say that nobody reads any more.
            const bool moves_on = cell + cells_for(payload) > line_cells;
            const std::uint64_t target = moves_on ? line + 1 : line;
            const bool room = writer.reserve(payload);
            if (target - lines_believed >= 16) {
                ASSERT_FALSE(room);
            }
            if (!room) {
                ASSERT_TRUE(moves_on || cell == 0) << "a line that was begun has room";
                continue;
            }
            if (moves_on) {
                ++line;
                cell = 0;
            }
            Cell& written = direction.lines[line % 16].cells[cell];
            writer.publish(FrameKind::Inline, 0, data.data(), payload, frames);
            const FrameHeader header = decode(written.header.load());
            ASSERT_EQ(header.kind, FrameKind::Inline);
            ASSERT_EQ(header.argument, frames);
            ++frames;
            cell += cells_taken(cell, payload);
            if (cell == line_cells) {
                ++line;
                cell = 0;
            }
        }
        EXPECT_GT(frames, 0U);
        EXPECT_GT(places, 0U);
    }
}

/// With counters that never move, the writer stops when its rings are full, whatever else is there.
TEST(HostileConsumer, ThatTakesNothingStopsTheWriter) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    direction.control->consumed.lines.store(1000);
    direction.control->consumed.chunks.store(1000);
    StreamProducer producer(direction, 1, 256);
    for (int i = 0; i < 10000; ++i)
        producer.step();
    EXPECT_LE(producer.written, 8U * line_cells);
    EXPECT_GT(producer.written, 0U);
}

TEST(HostileConsumer, WhoLiesAboutChunksMovesTheWriterNowhere) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    Ledger ledger(direction, memory);
    auto& said = direction.control->consumed.chunks;
    for (int i = 0; i < 8; ++i)
        ASSERT_TRUE(ledger.put(128));
    ASSERT_FALSE(ledger.put(128)) << "1024 bytes are 8 of these";
    for (const std::uint64_t lie : {std::uint64_t{9}, std::uint64_t{10}, std::uint64_t{1} << 32,
                                    std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        said.store(lie);
        EXPECT_FALSE(ledger.put(1)) << lie << " of 8 chunks";
    }
    // Two are taken; what is said later can not give them back.
    ASSERT_TRUE(ledger.take());
    ASSERT_TRUE(ledger.take());
    said.store(2);
    ASSERT_TRUE(ledger.put(128));
    for (const std::uint64_t lie : {0U, 1U, 10U, 11U}) {
        said.store(lie);
        EXPECT_FALSE(ledger.put(128)) << lie;
    }
    ASSERT_TRUE(ledger.put(64)) << "one line short of what was taken";
    EXPECT_EQ(ledger.under_way.front().first, 256U);
    EXPECT_EQ(ledger.under_way.back().first, 128U);
    EXPECT_FALSE(ledger.put(1)) << "or full would look like empty";
    // Everything, while it was nothing: the writer believes it, but writes into its ring only.
    for (int i = 0; i < 100; ++i) {
        ledger.under_way.clear();
        said.store(10 + static_cast<std::uint64_t>(i));
        direction.control->consumed.lines.store((10 + static_cast<std::uint64_t>(i)) / line_cells);
        ASSERT_TRUE(ledger.put(200));
    }
    EXPECT_EQ(ledger.highest, 1024U);
}

TEST(HostileConsumer, WhoLiesAboutLinesMovesTheWriterNowhere) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    ChannelWriter writer(direction);
    const std::array<std::byte, max_inline_bytes> payload{};
    auto& said = direction.control->consumed.lines;
    const auto fill = [&] {
        std::uint32_t frames = 0;
        for (; frames <= small_geometry.frame_lines && writer.reserve(max_inline_bytes); ++frames)
            writer.publish(FrameKind::Inline, 0, payload.data(), max_inline_bytes, 0);
        return frames;
    };
    ASSERT_EQ(fill(), 8U);
    for (const std::uint64_t lie :
         {std::uint64_t{9}, std::uint64_t{16}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        said.store(lie);
        EXPECT_EQ(fill(), 0U) << lie << " of 8 lines";
    }
    // Nor was any of them believed: what is true counts afterwards, and is not taken back.
    said.store(3);
    EXPECT_EQ(fill(), 3U);
    for (const std::uint64_t lie : {0U, 2U, 12U}) {
        said.store(lie);
        EXPECT_EQ(fill(), 0U) << lie;
    }
    said.store(11);
    EXPECT_EQ(fill(), 8U);
}

/// Takes frames as an endpoint does, checking that nothing leads outside.
void read_hostile_channel(ChannelReader& reader, const GuardedMemory& memory, int most) {
    FrameHeader frame;
    unsigned sum = 0;
    for (int i = 0; i < most; ++i) {
        [[maybe_unused]] const bool visible = reader.arrival_visible();
        const auto look = reader.look(frame);
        if (look != ChannelReader::Look::Frame) return;
        ASSERT_NE(frame.kind, FrameKind::Pad);
        ASSERT_NE(frame.kind, FrameKind::None);
        ASSERT_NE(frame.kind, FrameKind::Continuation);
        std::array<std::byte, max_inline_bytes> copy{};
        ASSERT_LE(frame.length, copy.size());
        ASSERT_LE(frame.length, payload_of_cells(frame.cells));
        reader.read_payload(copy.data(), frame.length);
        RingChunk chunk;
        std::memcpy(&chunk, copy.data(), sizeof chunk);
        if (const std::byte* data = reader.chunk(chunk); data != nullptr) {
            ASSERT_TRUE(memory.contains(data, chunk.bytes));
            sum += static_cast<unsigned>(data[0]) + static_cast<unsigned>(data[chunk.bytes - 1]);
            reader.chunk_done(chunk);
        }
        reader.advance(frame);
    }
    EXPECT_LE(sum, 510U * static_cast<unsigned>(most));
}

TEST(HostileProducer, LeadsTheReaderNowhere) {
    for (std::uint64_t seed = 1; seed <= repeated(2000); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const GuardedMemory memory(small_geometry.direction_bytes, edge_of(seed));
        const Direction direction = Direction::at(memory.data(), small_geometry);
        ChannelReader reader(direction);
        Random random(seed);
        for (int round = 0; round < 8; ++round) {
            // Pure noise, or headers that are as good as they can be at any place, of either lap.
            if (seed % 4 == 0) {
                for (std::byte& byte : memory.span())
                    byte = static_cast<std::byte>(random.next());
            } else {
                const bool lap = random.one_in(2);
                for (std::uint32_t line = 0; line < small_geometry.frame_lines; ++line)
                    for (std::uint32_t cell = 0; cell < line_cells; ++cell) {
                        Cell& target = direction.lines[line].cells[cell];
                        const bool own_lap = random.one_in(20) ? !lap : lap;
                        target.payload.store(random.one_in(2)
                                                 ? garbage(random, 1024)
                                                 : random.below(20) | random.below(1200) << 16);
                        if (cell != 0 && random.one_in(2)) {
                            target.header.store(encode_tag(FrameKind::Continuation, 1, own_lap) |
                                                (random.next() & payload_of_tagged_word));
                            continue;
                        }
                        const FrameHeader header{
                            static_cast<FrameKind>(random.below(seed % 4 == 1 ? 32 : 15)),
                            static_cast<std::uint8_t>(random.between(1, 4)),
                            static_cast<std::uint8_t>(random.next()),
                            static_cast<std::uint16_t>(random.one_in(10)
                                                           ? random.next()
                                                           : random.below(max_inline_bytes + 1)),
                            static_cast<std::uint32_t>(random.next())};
                        target.header.store(encode(header, own_lap));
                    }
            }
            read_hostile_channel(reader, memory, 200);
            if (HasFatalFailure()) return;
        }
    }
}

// An honest writer pads what is left behind a frame, never a whole line, and cell by cell. A reader
// that took other pads could be kept running in circles by a peer that writes them fast enough.
TEST(HostileProducer, CanNotSendTheReaderInCircles) {
    for (std::uint8_t cells = 1; cells <= line_cells; ++cells)
        for (std::uint32_t first = 0; first < 2; ++first) {
            const GuardedMemory memory(small_geometry.direction_bytes);
            const Direction direction = Direction::at(memory.data(), small_geometry);
            const std::uint64_t pad = encode({FrameKind::Pad, cells, 0, 0, 0}, true);
            for (std::uint32_t line = 0; line < small_geometry.frame_lines; ++line)
                for (Cell& cell : direction.lines[line].cells)
                    cell.header.store(pad);
            ChannelReader reader(direction);
            FrameHeader frame;
            if (first != 0) {
                direction.lines[0].cells[0].header.store(
                    encode({FrameKind::Inline, 1, 0, 0, 0}, true));
                ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
                reader.advance(frame);
            }
            EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nonsense) << int{cells};
        }
}

TEST(HostileProducer, APadOfSeveralCellsIsNonsense) {
    for (std::uint8_t cells = 1; cells < line_cells; ++cells) {
        const GuardedMemory memory(small_geometry.direction_bytes);
        const Direction direction = Direction::at(memory.data(), small_geometry);
        const std::uint64_t whole = encode({FrameKind::Inline, 1, 0, 0, 0}, true);
        auto& line = direction.lines[0].cells;
        line[0].header.store(whole);
        for (std::uint32_t i = 1; i < line_cells; ++i)
            line[i].header.store(
                encode({FrameKind::Pad, i == 1 ? cells : std::uint8_t{1}, 0, 0, 0}, true));
        direction.lines[1].cells[0].header.store(whole);
        ChannelReader reader(direction);
        FrameHeader frame;
        ASSERT_EQ(reader.look(frame), ChannelReader::Look::Frame);
        reader.advance(frame);
        EXPECT_EQ(reader.look(frame),
                  cells == 1 ? ChannelReader::Look::Frame : ChannelReader::Look::Nonsense);
    }
}

TEST(HostileProducer, AFurtherCellIsNoFrame) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    direction.lines[0].cells[0].header.store(encode_tag(FrameKind::Continuation, 1, true));
    ChannelReader reader(direction);
    FrameHeader frame;
    EXPECT_EQ(reader.look(frame), ChannelReader::Look::Nonsense);
}

TEST(HostileProducer, WritingWhileTheReaderReadsLeadsItNowhere) {
    const GuardedMemory memory(small_geometry.direction_bytes);
    const Direction direction = Direction::at(memory.data(), small_geometry);
    const Deadline deadline = Deadline::after_milliseconds(60000);
    std::atomic<bool> stop{false};
    std::thread vandal([&] {
        Random random(5);
        while (!stop.load() && !deadline.expired()) {
            const std::uint32_t line = random.below(small_geometry.frame_lines);
            const std::uint32_t cell = random.below(line_cells);
            const FrameHeader header{static_cast<FrameKind>(random.below(16)),
                                     static_cast<std::uint8_t>(random.between(1, 4)), 0,
                                     static_cast<std::uint16_t>(random.below(70)),
                                     static_cast<std::uint32_t>(random.next())};
            // Cells only: they are atomic, so that the tools that look for races stay silent.
            Cell& target = direction.lines[line].cells[cell];
            target.payload.store(random.next());
            target.header.store(random.one_in(2) ? encode_tag(FrameKind::Continuation, header.cells,
                                                              random.one_in(2))
                                                 : encode(header, random.one_in(2)));
        }
    });
    std::uint32_t seen = 0;
    std::uint32_t long_ones = 0;
    const std::uint32_t wanted = repeated(50000);
    while ((seen < wanted || long_ones == 0) && !deadline.expired()) {
        ChannelReader reader(direction);
        FrameHeader frame;
        std::array<std::byte, max_inline_bytes + 1> payload;
        payload.back() = std::byte{77};
        for (int n = 0; n < 20; ++n) {
            if (reader.look(frame) != ChannelReader::Look::Frame) break;
            if (frame.length > payload_of_cells(frame.cells)) ADD_FAILURE();
            if (frame.kind > FrameKind::Last || frame.kind <= FrameKind::Pad) ADD_FAILURE();
            reader.read_payload(payload.data(),
                                std::min<std::uint32_t>(frame.length, max_inline_bytes));
            if (payload.back() != std::byte{77}) ADD_FAILURE();
            reader.advance(frame);
            ++seen;
            long_ones += frame.cells > 1;
        }
        if (seen >= wanted) sched_yield();
    }
    stop = true;
    vandal.join();
    EXPECT_GE(seen, wanted);
    EXPECT_GT(long_ones, 0U);
}

}  // namespace
