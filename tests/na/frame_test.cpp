// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/frame.hpp"

#include <gtest/gtest.h>

#include "na/seeded.hpp"

using namespace via::na::shm;
using via::test::Random;

namespace {

TEST(Frame, HeaderSurvivesEncoding) {
    Random random(1);
    for (unsigned kind = 1; kind < 32; ++kind)
        for (std::uint8_t cells = 1; cells <= 4; ++cells)
            for (const bool lap : {false, true})
                for (int i = 0; i < 64; ++i) {
                    const FrameHeader header{static_cast<FrameKind>(kind), cells,
                                             static_cast<std::uint8_t>(random.next()),
                                             static_cast<std::uint16_t>(random.next()),
                                             static_cast<std::uint32_t>(random.next())};
                    const std::uint64_t word = encode(header, lap);
                    EXPECT_TRUE(is_present(word, lap));
                    EXPECT_FALSE(is_present(word, !lap));
                    const FrameHeader back = decode(word);
                    EXPECT_EQ(back.kind, header.kind);
                    EXPECT_EQ(back.cells, header.cells);
                    EXPECT_EQ(back.flags, header.flags);
                    EXPECT_EQ(back.length, header.length);
                    EXPECT_EQ(back.argument, header.argument);
                }
}

/// The last byte in memory is what says that a cell is new: it holds kind and lap, nothing else
/// does.
TEST(Frame, NothingIsPresentWithoutAKind) {
    Random random(2);
    for (std::uint64_t tag = 0; tag <= 0xFF; ++tag)
        for (int i = 0; i < 64; ++i) {
            const std::uint64_t rest = i == 0   ? 0
                                       : i == 1 ? payload_of_tagged_word
                                                : random.next() & payload_of_tagged_word;
            const std::uint64_t word = tag << tag_shift | rest;
            const bool kind = (tag & 0x1F) != 0;
            const bool lap = (tag & 0x20) != 0;
            EXPECT_EQ(is_present(word, lap), kind);
            EXPECT_FALSE(is_present(word, !lap));
        }
}

TEST(Frame, OnlyAContinuationOfItsLapIsOne) {
    Random random(3);
    for (std::uint64_t tag = 0; tag <= 0xFF; ++tag)
        for (const bool lap : {false, true}) {
            const std::uint64_t word = tag << tag_shift | (random.next() & payload_of_tagged_word);
            const bool wanted = (tag & 0x1F) == 0x1F && ((tag & 0x20) != 0) == lap;
            EXPECT_EQ(is_continuation(word, lap), wanted) << tag;
        }
    for (const bool lap : {false, true}) {
        const std::uint64_t word = encode_tag(FrameKind::Continuation, 1, lap);
        EXPECT_EQ(word & payload_of_tagged_word, 0U) << "the tag takes nothing of the payload";
        EXPECT_TRUE(is_continuation(word, lap));
        EXPECT_FALSE(is_continuation(word, !lap));
        for (unsigned kind = 0; kind <= static_cast<unsigned>(FrameKind::Last); ++kind)
            EXPECT_FALSE(is_continuation(encode_tag(static_cast<FrameKind>(kind), 1, lap), lap));
    }
}

/// All headers that differ in what is_sound looks at, at all cells: sound ones lie inside their
/// line, header and payload, and all that fit are sound. A further cell is not the start of a
/// frame.
TEST(Frame, SoundMeansInsideTheLine) {
    for (std::uint32_t cell = 0; cell < line_cells; ++cell)
        for (unsigned kind = 0; kind < 32; ++kind)
            for (std::uint8_t cells = 1; cells <= 4; ++cells)
                for (std::uint32_t length = 0; length <= 0xFFFF; length += length < 80 ? 1 : 997) {
                    const FrameHeader header =
                        decode(encode({static_cast<FrameKind>(kind), cells, 0,
                                       static_cast<std::uint16_t>(length), 0},
                                      true));
                    const bool known = kind <= static_cast<unsigned>(FrameKind::Last);
                    const std::uint32_t first = cell * cell_bytes;
                    // A header and in each further cell a tag are no room for payload.
                    const bool inside = first + cells * cell_bytes <= sizeof(FrameLine) &&
                                        8 + (cells - 1U) + length <= cells * cell_bytes;
                    ASSERT_EQ(is_sound(header, cell), known && inside)
                        << "cell " << cell << " kind " << kind << " cells " << int{cells}
                        << " length " << length;
                }
}

TEST(Frame, CellsForIsTheLeastThatHolds) {
    EXPECT_EQ(max_inline_bytes, payload_of_cells(line_cells));
    EXPECT_EQ(cells_for(max_inline_bytes), line_cells);
    for (std::uint32_t bytes = 0; bytes <= max_inline_bytes; ++bytes) {
        const std::uint32_t cells = cells_for(bytes);
        EXPECT_LE(cells, line_cells);
        EXPECT_GE(payload_of_cells(cells), bytes);
        if (cells > 1) {
            EXPECT_LT(payload_of_cells(cells - 1), bytes);
        }
        EXPECT_TRUE(is_sound({FrameKind::Inline, static_cast<std::uint8_t>(cells), 0,
                              static_cast<std::uint16_t>(bytes), 0},
                             0));
    }
}

/// Chunks of every place and length that a ring can have are named without loss.
TEST(Frame, ARingChunkNamesEveryPlace) {
    EXPECT_EQ(sizeof(RingChunk), 4U);
    EXPECT_EQ(max_ring_bytes / via::base::cache_line - 1, 0xFFFFU);
    EXPECT_LE(max_chunk_bytes, 0xFFFFU);
}

}  // namespace
