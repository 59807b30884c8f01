// SPDX-License-Identifier: BSD-3-Clause
#include "crossing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace via::tool {
namespace {

using CrossingKind = Crossing::Kind;

/// Sizes from 64 bytes on, doubling, with these ratios of second to first.
std::vector<CostPair> with_ratios(const std::vector<double>& ratios) {
    std::vector<CostPair> sizes;
    std::uint64_t bytes = 64;
    for (const double ratio : ratios) {
        const double first = 0.1 + static_cast<double>(bytes) / 10000;
        sizes.push_back({bytes, first, first * ratio});
        bytes *= 2;
    }
    return sizes;
}

TEST(FindCrossing, IsWhereTheSecondWayStaysAhead) {
    const Crossing crossing = find_crossing(with_ratios({1.5, 1.3, 1.1, 0.9, 0.7, 0.5}));
    EXPECT_EQ(crossing.kind, CrossingKind::From);
    EXPECT_EQ(crossing.bytes, 512u);
}

TEST(FindCrossing, NeverAhead) {
    EXPECT_EQ(find_crossing(with_ratios({1.5, 1.4, 1.3, 1.2, 1.01})).kind, CrossingKind::Never);
}

TEST(FindCrossing, AlwaysAhead) {
    const Crossing crossing = find_crossing(with_ratios({0.99, 0.9, 0.8, 0.7}));
    EXPECT_EQ(crossing.kind, CrossingKind::Always);
    EXPECT_EQ(crossing.bytes, 64u);
}

TEST(FindCrossing, AheadOnlyAtSmallSizesIsNever) {
    EXPECT_EQ(find_crossing(with_ratios({0.9, 0.95, 1.2, 1.3, 1.4})).kind, CrossingKind::Never);
}

TEST(FindCrossing, OneDisturbedSizeDoesNotDecide) {
    // A hiccup makes the first way look ten times slower at 128 bytes ...
    const Crossing early = find_crossing(with_ratios({1.5, 0.1, 1.4, 1.3, 1.2, 0.8, 0.7}));
    EXPECT_EQ(early.kind, CrossingKind::From);
    EXPECT_EQ(early.bytes, 2048u);
    // ... and the second at 1k, in the middle of where it is ahead.
    const Crossing late = find_crossing(with_ratios({1.5, 1.3, 0.9, 0.8, 9.0, 0.6, 0.5}));
    EXPECT_EQ(late.kind, CrossingKind::From);
    EXPECT_EQ(late.bytes, 256u);
}

TEST(FindCrossing, SmallWobblesAroundOneLeaveTheClearPartToDecide) {
    const Crossing crossing =
        find_crossing(with_ratios({1.3, 1.2, 1.02, 0.99, 1.01, 0.98, 0.8, 0.6}));
    EXPECT_EQ(crossing.kind, CrossingKind::From);
    EXPECT_GE(crossing.bytes, 512u);
    EXPECT_LE(crossing.bytes, 4096u);
}

TEST(FindCrossing, EqualIsNoReasonToChange) {
    EXPECT_EQ(find_crossing(with_ratios({1, 1, 1, 1})).kind, CrossingKind::Never);
}

TEST(FindCrossing, FewSizesOrNone) {
    EXPECT_EQ(find_crossing({}).kind, CrossingKind::Never);
    EXPECT_EQ(find_crossing(with_ratios({0.5})).kind, CrossingKind::Always);
    EXPECT_EQ(find_crossing(with_ratios({1.5})).kind, CrossingKind::Never);
    const Crossing two = find_crossing(with_ratios({1.5, 0.5}));
    EXPECT_EQ(two.kind, CrossingKind::From);
    EXPECT_EQ(two.bytes, 128u);
}

TEST(FindCrossing, AMissingMeasurementCountsAsEqual) {
    std::vector<CostPair> sizes = with_ratios({1.5, 1.2, 0.8, 0.7, 0.6});
    sizes[4].second = 0;
    const Crossing crossing = find_crossing(sizes);
    EXPECT_EQ(crossing.kind, CrossingKind::From);
    EXPECT_EQ(crossing.bytes, 256u);
}

TEST(ThresholdFor, StaysInTheLegalRange) {
    const auto sizes = with_ratios({0.9, 0.8, 0.7});
    EXPECT_EQ(threshold_for({CrossingKind::Always, 64}, sizes, 1000, 128, 4096), 128u);
    EXPECT_EQ(threshold_for({CrossingKind::From, 512}, sizes, 1000, 64, 256), 256u);
    EXPECT_EQ(threshold_for({CrossingKind::From, 512}, sizes, 1000, 64, 4096), 512u);
}

TEST(ThresholdFor, NeverLiesBeyondWhatWasMeasured) {
    const auto sizes = with_ratios({1.5, 1.5, 1.5});  // up to 256
    EXPECT_EQ(threshold_for({CrossingKind::Never, 0}, sizes, 100, 64, 1 << 20), 257u);
    EXPECT_EQ(threshold_for({CrossingKind::Never, 0}, sizes, 9000, 64, 1 << 20), 9000u);
    EXPECT_EQ(threshold_for({CrossingKind::Never, 0}, sizes, 100, 64, 200), 200u);
    EXPECT_EQ(threshold_for({CrossingKind::Never, 0}, {}, 100, 64, 200), 100u);
}

}  // namespace
}  // namespace via::tool
