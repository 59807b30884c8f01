// SPDX-License-Identifier: BSD-3-Clause
#include "text_table.hpp"

#include <gtest/gtest.h>

namespace via::tool {
namespace {

TEST(TextTable, LinesUpColumnsAlsoWithWideCharacters) {
    TextTable table;
    table.add_column("name", Align::Left);
    table.add_column("µs");
    table.add_row({"a", "1.5"});
    table.add_row({"µµµµµµ", "100"});
    EXPECT_EQ(table.draw(), "name     µs\na       1.5\nµµµµµµ  100\n");
}

TEST(TextTable, FillsMissingCellsAndDropsFurtherOnes) {
    TextTable table;
    table.add_column("a");
    table.add_column("b");
    table.add_row({"1"});
    table.add_row({"1", "2", "3"});
    EXPECT_EQ(table.draw("  "), "  a  b\n  1\n  1  2\n");
}

TEST(ScreenWidth, CountsCodePoints) {
    EXPECT_EQ(screen_width(""), 0u);
    EXPECT_EQ(screen_width("abc"), 3u);
    EXPECT_EQ(screen_width("µs"), 2u);
    EXPECT_EQ(screen_width("⣿⣿"), 2u);
}

TEST(Clip, NeverCutsACharacter) {
    EXPECT_EQ(clip("abc", 2), "ab");
    EXPECT_EQ(clip("µµµ", 2), "µµ");
    EXPECT_EQ(clip("⣿x", 1), "⣿");
    EXPECT_EQ(clip("abc", 9), "abc");
    EXPECT_EQ(clip("abc", 0), "");
}

TEST(Printable, KeepsTextAndReplacesWhatATerminalWouldObey) {
    EXPECT_EQ(printable("plain µ ⣿ text"), "plain µ ⣿ text");
    EXPECT_EQ(printable("\x1b[2Jboo\n\a"), "?[2Jboo??");
    EXPECT_EQ(printable("\x7f"), "?");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "??31m");                                // the one-character form of ESC [
    EXPECT_EQ(printable("\xe2\x80\xae"), "???");       // turns the direction of writing round
    EXPECT_EQ(printable("\xff\xfe"), "??");            // no UTF-8 at all
    EXPECT_EQ(printable("\xc0\xaf"), "??");            // overlong
    EXPECT_EQ(printable("\xed\xa0\x80"), "???");       // half of a pair
    EXPECT_EQ(printable("\xe2\xa3"), "??");            // cut off
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????");  // beyond the last code point
}

}  // namespace
}  // namespace via::tool
