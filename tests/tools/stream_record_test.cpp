// SPDX-License-Identifier: BSD-3-Clause
#include "stream_record.hpp"

#include <gtest/gtest.h>

#include "text_table.hpp"

namespace via::tool {
namespace {

TEST(LongestStall, IsBetweenTwoGrowths) {
    EXPECT_DOUBLE_EQ(longest_stall({}).seconds, 0);
    const Stall stall =
        longest_stall({{0, 0}, {1, 10}, {1.5, 10}, {2, 10}, {3.5, 20}, {4, 30}, {9, 30}});
    EXPECT_DOUBLE_EQ(stall.begin, 1);
    EXPECT_DOUBLE_EQ(stall.seconds, 2.5) << "samples without growth do not end it";
}

TEST(RatesOverTime, AddUpToWhatCame) {
    const std::vector<double> rates = rates_over_time({{0, 0}, {1, 100}, {3, 500}}, 0.5, 3);
    ASSERT_EQ(rates.size(), 6u);
    EXPECT_DOUBLE_EQ(rates[0], 100);
    EXPECT_DOUBLE_EQ(rates[1], 100);
    EXPECT_DOUBLE_EQ(rates[2], 200);
    EXPECT_DOUBLE_EQ(rates[5], 200);
    double sum = 0;
    for (const double rate : rates_over_time({{0.05, 0}, {0.33, 40}, {1.9, 50}}, 0.3, 2))
        sum += rate * 0.3;
    EXPECT_NEAR(sum, 50, 1e-9);
    EXPECT_TRUE(rates_over_time({{0, 0}}, 0.5, 0).empty());
}

TEST(DrawOverTime, LinesFitAndShowTheMarks) {
    TimePlotOptions options;
    options.y_title = "MB/s";
    options.width = 0.1;
    const std::string text = draw_over_time(
        {{"all", std::vector<double>(80, 238.0)}, {"one", std::vector<double>(80, 119.0)}},
        {{2, "link 1 cut"}, {5, "link 1 back"}}, options);
    EXPECT_NE(text.find("↑ link 1 cut"), std::string::npos) << text;
    EXPECT_NE(text.find("↑ link 1 back"), std::string::npos) << text;
    EXPECT_NE(text.find("250"), std::string::npos) << "the axis ends at a round number\n" << text;
    EXPECT_NE(text.find("a all,  b one"), std::string::npos) << text;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        EXPECT_LE(screen_width(text.substr(begin, end - begin)), options.columns + 14);
    EXPECT_EQ(draw_over_time({}, {}, options), "nothing to show\n");
}

TEST(TimeChartScript, HasDataAndMarks) {
    TimePlotOptions options;
    options.y_title = "MB/s";
    const std::string script =
        time_chart_script({{"all", {1, 2}}}, {{0.1, "cut"}}, options, "A title", "/x/y");
    for (const char* part : {"set output '/x/y.svg'", "set output '/x/y.png'", "0.0500 1.00",
                             "0.1500 2.00", "set label 'cut'", "A title"})
        EXPECT_NE(script.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace via::tool
