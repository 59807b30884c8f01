// SPDX-License-Identifier: BSD-3-Clause
// A channel whose other side writes what it likes: a writer that believes no impossible counter, a
// reader that no header leads outside.
#include "na/shm/channel.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "na/channel_parts.hpp"
#include "na/seeded.hpp"
#include "na/shm/frame_stream.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;
using via::base::Deadline;

namespace {

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
