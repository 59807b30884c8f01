// SPDX-License-Identifier: BSD-3-Clause
#include "plot.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "text_table.hpp"

namespace via::tool {
namespace {

TEST(BrailleCanvas, SetsTheRightDotOfEachCell) {
    BrailleCanvas canvas(2, 1);
    EXPECT_EQ(canvas.row(0, false), "  ");
    canvas.set(0, 0, 1);
    EXPECT_EQ(canvas.row(0, false), "⠁ ");
    canvas.set(1, 3, 1);
    EXPECT_EQ(canvas.row(0, false), "⢁ ");
    for (int x = 2; x < 4; ++x)
        for (int y = 0; y < 4; ++y)
            canvas.set(x, y, 1);
    EXPECT_EQ(canvas.row(0, false), "⢁⣿");
}

TEST(BrailleCanvas, IgnoresDotsOutside) {
    BrailleCanvas canvas(1, 1);
    canvas.set(-1, 0, 1);
    canvas.set(0, -1, 1);
    canvas.set(2, 0, 1);
    canvas.set(0, 4, 1);
    canvas.mark(9, 9, "x", 1);
    EXPECT_EQ(canvas.row(0, false), " ");
}

TEST(BrailleCanvas, DrawsLinesBetweenTheirEnds) {
    BrailleCanvas canvas(2, 1);
    canvas.line(0, 0, 3, 0, 1);
    EXPECT_EQ(canvas.row(0, false), "⠉⠉");
    canvas.line(0, 3, 0, 3, 1);
    EXPECT_EQ(canvas.row(0, false), "⡉⠉");
    BrailleCanvas diagonal(2, 1);
    diagonal.line(3, 3, 0, 0, 1);
    EXPECT_EQ(diagonal.row(0, false), "⠑⢄");
}

TEST(BrailleCanvas, SymbolsThatMeetBecomeAnAsterisk) {
    BrailleCanvas canvas(1, 1);
    EXPECT_FALSE(canvas.mark(0, 0, "o", 1));
    EXPECT_FALSE(canvas.mark(1, 3, "o", 1));
    EXPECT_EQ(canvas.row(0, false), "o");
    EXPECT_TRUE(canvas.mark(0, 0, "x", 2));
    EXPECT_EQ(canvas.row(0, false), "*");
}

TEST(BrailleCanvas, ColoursOnlyWhenAsked) {
    BrailleCanvas canvas(1, 1);
    canvas.mark(0, 0, "o", 1);
    EXPECT_EQ(canvas.row(0, false), "o");
    EXPECT_NE(canvas.row(0, true).find("\x1b["), std::string::npos);
    EXPECT_TRUE(canvas.row(0, true).ends_with("\x1b[0m"));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);)
        lines.push_back(line);
    return lines;
}

TEST(DrawPlot, PutsPointsWhereTheyBelong) {
    const std::vector<PlotSeries> series{{"up", "x", {{8, 1}, {64, 10}, {512, 100}}}};
    PlotOptions options;
    options.title = "title";
    options.columns = 41;
    options.rows = 5;
    const auto lines = lines_of(draw_plot(series, options));
    ASSERT_EQ(lines.size(), 9u);  // title, 5 rows, axis, labels, legend
    EXPECT_EQ(lines[0], "  title");
    EXPECT_TRUE(lines[1].starts_with("  100 ┤")) << lines[1];
    EXPECT_TRUE(lines[1].ends_with("x")) << lines[1];
    EXPECT_TRUE(lines[3].starts_with("   10 ┤")) << lines[3];
    EXPECT_TRUE(lines[5].starts_with("    1 ┤x")) << lines[5];
    EXPECT_NE(lines[7].find("8"), std::string::npos);
    EXPECT_NE(lines[7].find("64"), std::string::npos);
    EXPECT_NE(lines[7].find("512"), std::string::npos);
    EXPECT_NE(lines[8].find("x up"), std::string::npos);
    for (std::size_t row = 1; row <= 5; ++row)
        EXPECT_EQ(screen_width(lines[row]), 2 + 3 + 2 + options.columns) << lines[row];
}

TEST(DrawPlot, LeavesOutWhatCannotBeDrawn) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinite = std::numeric_limits<double>::infinity();
    EXPECT_EQ(draw_plot({}, {}), "");
    EXPECT_EQ(draw_plot({{"none", "x", {{0, 1}, {1, 0}, {-1, 1}, {nan, 1}, {1, infinite}}}}, {}),
              "");
    EXPECT_NE(draw_plot({{"one", "x", {{8, 1}}}}, {}), "");
    EXPECT_NE(draw_plot({{"some", "x", {{8, 1}, {16, nan}, {32, 2}}}}, {}), "");
}

TEST(DrawPlot, LabelsOfManySizesDoNotTouch) {
    PlotSeries series{"s", "x", {}};
    for (double bytes = 8; bytes <= 4 << 20; bytes *= 2)
        series.points.push_back({bytes, bytes});
    PlotOptions options;
    options.columns = 40;
    const auto lines = lines_of(draw_plot({series}, options));
    const std::string& labels = lines[options.rows + 2];
    EXPECT_NE(labels.find("8  "), std::string::npos) << labels;
    // Every label is a size that can be read, so none ran into the next.
    std::istringstream words(labels);
    int count = 0;
    for (std::string word; words >> word; ++count)
        EXPECT_LE(word.size(), 4u) << labels;
    EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace via::tool
