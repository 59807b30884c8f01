// SPDX-License-Identifier: BSD-3-Clause
// Single frames of a channel: which cells they take, that just their payload is carried, and when
// the reader shows them and tells of them.
#include "na/shm/channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "na/channel_parts.hpp"
#include "na/seeded.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;
using namespace via::test;

namespace {

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

}  // namespace
