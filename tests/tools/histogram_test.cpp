// SPDX-License-Identifier: BSD-3-Clause
#include "histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text_table.hpp"

namespace via::tool {
namespace {

std::uint64_t total(const std::vector<HistogramBin>& bins) {
    std::uint64_t sum = 0;
    for (const HistogramBin& bin : bins)
        sum += bin.count;
    return sum;
}

TEST(MakeHistogram, CountsEveryValueOnceInItsBin) {
    std::vector<double> values;
    for (int i = 1; i <= 1000; ++i)
        values.push_back(0.1 * i);
    const auto bins = make_histogram(values, 10);
    ASSERT_GE(bins.size(), 10u);
    EXPECT_EQ(total(bins), values.size());
    EXPECT_DOUBLE_EQ(bins.front().from, 0.1);
    EXPECT_DOUBLE_EQ(bins.back().to, 100);
    for (std::size_t i = 0; i < bins.size(); ++i) {
        EXPECT_DOUBLE_EQ(bins[i].from, i == 0 ? 0.1 : bins[i - 1].to);
        const bool last = i + 1 == bins.size();
        std::uint64_t inside = 0;
        for (const double value : values)
            if (value >= bins[i].from && (value < bins[i].to || last)) ++inside;
        EXPECT_EQ(bins[i].count, inside) << i;
    }
}

TEST(MakeHistogram, OutliersDoNotFlattenTheBody) {
    std::vector<double> values(9900);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 1 + static_cast<double>(i) * 1e-4;
    for (int i = 0; i < 80; ++i)
        values.push_back(500);
    values.push_back(90000);
    const auto bins = make_histogram(values, 20);
    EXPECT_EQ(total(bins), values.size());
    // The body spreads over its 20 bins, the tail has one for each power of ten.
    for (std::size_t i = 0; i < 20; ++i)
        EXPECT_GT(bins[i].count, 100u) << i;
    EXPECT_LE(bins.size(), 27u);
    EXPECT_DOUBLE_EQ(bins.back().to, 90000);
    EXPECT_EQ(bins.back().count, 1u);
    for (std::size_t i = 21; i + 1 < bins.size(); ++i)
        EXPECT_NEAR(bins[i].to / bins[i].from, 10, 1e-6) << i;
}

TEST(MakeHistogram, OneBinForEqualValuesAndNoneForNone) {
    EXPECT_TRUE(make_histogram({}).empty());
    const std::vector<double> same(5, 3.0);
    const auto bins = make_histogram(same);
    ASSERT_EQ(bins.size(), 1u);
    EXPECT_EQ(bins[0].count, 5u);
    EXPECT_DOUBLE_EQ(bins[0].from, 3);
}

TEST(MakeHistogram, ValuesThatAreNotPositiveLandInTheFirstBin) {
    const std::vector<double> values{0, -1, 1, 10};
    const auto bins = make_histogram(values, 4);
    EXPECT_EQ(total(bins), 4u);
    EXPECT_EQ(bins.front().count, 3u);
    EXPECT_EQ(total(make_histogram(std::vector<double>{0, 0})), 2u);
}

TEST(DrawBar, HasAlwaysTheAskedWidth) {
    for (const double share : {0.0, 0.01, 0.37, 0.5, 0.999, 1.0, 7.0, -2.0})
        EXPECT_EQ(screen_width(draw_bar(share, 20)), 20u) << share;
    EXPECT_EQ(draw_bar(1, 3), "███");
    EXPECT_EQ(draw_bar(0.5, 3), "█▌ ");
    EXPECT_EQ(draw_bar(std::numeric_limits<double>::quiet_NaN(), 2), "  ");
}

TEST(DrawHistogram, ShowsCountsAndFoldsGaps) {
    const std::vector<HistogramBin> bins{{1, 2, 10}, {2, 4, 0}, {4, 8, 0}, {8, 16, 1}};
    const std::string text = draw_histogram(bins, "µs", 10);
    EXPECT_NE(text.find("██████████ 10"), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
    EXPECT_NE(text.find("..."), std::string::npos);
    // The smallest count still shows.
    const std::vector<HistogramBin> uneven{{1, 2, 1'000'000}, {2, 4, 1}};
    EXPECT_NE(draw_histogram(uneven, "µs", 10).find("▏          1\n"), std::string::npos)
        << draw_histogram(uneven, "µs", 10);
    EXPECT_TRUE(draw_histogram({}, "µs").empty());
}

}  // namespace
}  // namespace via::tool
