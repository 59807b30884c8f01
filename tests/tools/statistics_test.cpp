// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace via::tool {
namespace {

TEST(Percentile, InterpolatesBetweenRanks) {
    const std::vector<double> values{10, 20, 30, 40, 50};
    EXPECT_DOUBLE_EQ(percentile_of_sorted(values, 0), 10);
    EXPECT_DOUBLE_EQ(percentile_of_sorted(values, 0.5), 30);
    EXPECT_DOUBLE_EQ(percentile_of_sorted(values, 0.625), 35);
    EXPECT_DOUBLE_EQ(percentile_of_sorted(values, 1), 50);
}

TEST(Percentile, StaysInsideTheValues) {
    const std::vector<double> one{7};
    EXPECT_DOUBLE_EQ(percentile_of_sorted(one, 0.999), 7);
    EXPECT_DOUBLE_EQ(percentile_of_sorted(one, -3), 7);
    EXPECT_DOUBLE_EQ(percentile_of_sorted(one, 42), 7);
    EXPECT_DOUBLE_EQ(percentile_of_sorted({}, 0.5), 0);
}

TEST(Median, TakesTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
    EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
    EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Summarize, DescribesValuesInAnyOrder) {
    std::vector<double> values(1001);
    std::iota(values.rbegin(), values.rend(), 0.0);
    const Summary summary = summarize(values);
    EXPECT_EQ(summary.count, 1001u);
    EXPECT_DOUBLE_EQ(summary.mean, 500);
    EXPECT_DOUBLE_EQ(summary.minimum, 0);
    EXPECT_DOUBLE_EQ(summary.maximum, 1000);
    EXPECT_DOUBLE_EQ(summary.p50, 500);
    EXPECT_DOUBLE_EQ(summary.p90, 900);
    EXPECT_DOUBLE_EQ(summary.p99, 990);
    EXPECT_DOUBLE_EQ(summary.p999, 999);
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
}

TEST(Summarize, OfNothingIsZero) {
    std::vector<double> none;
    EXPECT_EQ(summarize(none).count, 0u);
    EXPECT_DOUBLE_EQ(summarize(none).p999, 0);
}

}  // namespace
}  // namespace via::tool
