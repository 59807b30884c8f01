// SPDX-License-Identifier: BSD-3-Clause
#include "spread.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace via::bench {
namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

TEST(Spread, OfOddCount) {
    const std::vector<double> values{5, 1, 4, 2, 3};
    const Spread spread = spread_of(values);
    EXPECT_EQ(spread.count, 5U);
    EXPECT_DOUBLE_EQ(spread.median, 3);
    EXPECT_DOUBLE_EQ(spread.lower_quartile, 2);
    EXPECT_DOUBLE_EQ(spread.upper_quartile, 4);
    EXPECT_DOUBLE_EQ(spread.minimum, 1);
    EXPECT_DOUBLE_EQ(spread.maximum, 5);
}

TEST(Spread, OfEvenCountLiesBetween) {
    const std::vector<double> values{4, 1, 2, 3};
    const Spread spread = spread_of(values);
    EXPECT_DOUBLE_EQ(spread.median, 2.5);
    EXPECT_DOUBLE_EQ(spread.lower_quartile, 1.75);
}

TEST(Spread, OfOneValueIsThatValue) {
    const std::vector<double> values{7};
    const Spread spread = spread_of(values);
    EXPECT_DOUBLE_EQ(spread.median, 7);
    EXPECT_DOUBLE_EQ(spread.minimum, 7);
    EXPECT_DOUBLE_EQ(spread.upper_quartile, 7);
}

TEST(Spread, LeavesFailedTakesOut) {
    const std::vector<double> values{no_value, 1, std::numeric_limits<double>::infinity(), 3};
    const Spread spread = spread_of(values);
    EXPECT_EQ(spread.count, 2U);
    EXPECT_DOUBLE_EQ(spread.median, 2);
    EXPECT_EQ(spread_of(std::vector<double>{no_value}).count, 0U);
    EXPECT_EQ(spread_of({}).count, 0U);
}

TEST(Ratios, ArePairwise) {
    const std::vector<double> ours{2, 9, no_value, 4, 5};
    const std::vector<double> peers{4, 3, 1, no_value, 0};
    const auto result = ratios(ours, peers);
    ASSERT_EQ(result.size(), 5U);
    EXPECT_DOUBLE_EQ(result[0], 0.5);
    EXPECT_DOUBLE_EQ(result[1], 3);
    EXPECT_TRUE(std::isnan(result[2]));
    EXPECT_TRUE(std::isnan(result[3]));
    EXPECT_TRUE(std::isnan(result[4])) << "a ratio to nothing is no ratio";
}

}  // namespace
}  // namespace via::bench
