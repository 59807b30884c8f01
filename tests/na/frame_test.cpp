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

TEST(Frame, NothingIsPresentWithoutAKind) {
    for (std::uint64_t word = 0; word <= 0xFFFF; ++word) {
        if ((word & 0x1F) != 0) continue;
        EXPECT_FALSE(is_present(word, false));
        EXPECT_FALSE(is_present(word, true));
    }
}

/// All headers that differ in what is_sound looks at, at all cells: sound ones lie inside their
/// line, header and payload, and all that fit are sound.
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
                    const bool inside = first + cells * cell_bytes <= sizeof(FrameLine) &&
                                        header_bytes + length <= cells * cell_bytes;
                    ASSERT_EQ(is_sound(header, cell), known && inside)
                        << "cell " << cell << " kind " << kind << " cells " << int{cells}
                        << " length " << length;
                }
}

TEST(Frame, CellsForIsTheLeastThatHolds) {
    for (std::uint32_t bytes = 0; bytes <= max_inline_bytes; ++bytes) {
        const std::uint32_t cells = cells_for(bytes);
        EXPECT_LE(cells, line_cells);
        EXPECT_GE(cells * cell_bytes, header_bytes + bytes);
        if (cells > 1) {
            EXPECT_LT((cells - 1) * cell_bytes, header_bytes + bytes);
        }
        EXPECT_TRUE(is_sound({FrameKind::Inline, static_cast<std::uint8_t>(cells), 0,
                              static_cast<std::uint16_t>(bytes), 0},
                             0));
    }
}

}  // namespace
