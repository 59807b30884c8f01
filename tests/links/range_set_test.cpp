// SPDX-License-Identifier: BSD-3-Clause
#include "links/range_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>

namespace via::links {
namespace {

constexpr std::size_t numbers = 200;

/// The same by a bit for each number.
std::vector<RangeSet::Range> ranges_of(const std::bitset<numbers>& model) {
    std::vector<RangeSet::Range> ranges;
    for (std::size_t i = 0; i < numbers; ++i) {
        if (!model[i]) continue;
        if (!ranges.empty() && ranges.back().end == i)
            ++ranges.back().end;
        else
            ranges.push_back({i, i + 1});
    }
    return ranges;
}

TEST(RangeSet, DoesWhatABitmapDoes) {
    std::mt19937 random(1);
    for (int run = 0; run < 300; ++run) {
        RangeSet set;
        std::bitset<numbers> model;
        for (int step = 0; step < 60; ++step) {
            const std::uint64_t begin = random() % numbers;
            const std::uint64_t end = std::min<std::uint64_t>(begin + random() % 12, numbers);
            bool any_new = false;
            for (std::uint64_t i = begin; i < end; ++i) {
                any_new = any_new || !model[i];
                model.set(i);
            }
            ASSERT_EQ(set.add(begin, end), any_new) << "run " << run << " step " << step;
            ASSERT_EQ(set.ranges(), ranges_of(model)) << "run " << run << " step " << step;
            ASSERT_EQ(set.empty(), model.none());
            const std::uint64_t first = random() % numbers;
            const std::uint64_t last = first + 1 + random() % 8;
            bool covered = last <= numbers;
            for (std::uint64_t i = first; covered && i < last; ++i)
                covered = model[i];
            ASSERT_EQ(set.covers(first, last), covered);
            ASSERT_EQ(set.contains(first), model[first]);
        }
    }
}

TEST(RangeSet, KeepsTheHighestRanges) {
    RangeSet set;
    for (std::uint64_t i = 0; i < 10; ++i)
        set.add(3 * i, 3 * i + 1);
    set.keep_last(20);
    EXPECT_EQ(set.ranges().size(), 10U);
    set.keep_last(2);
    ASSERT_EQ(set.ranges().size(), 2U);
    EXPECT_EQ(set.ranges()[0], (RangeSet::Range{24, 25}));
    EXPECT_EQ(set.ranges()[1], (RangeSet::Range{27, 28}));
    set.clear();
    EXPECT_TRUE(set.empty());
    EXPECT_FALSE(set.contains(27));
}

TEST(RangeSet, GivesUpWhatReachesDownToAnEnd) {
    RangeSet set;
    EXPECT_EQ(set.join(7), 7U);
    set.add(10, 20);
    set.add(30, 40);
    set.add(50, 60);
    EXPECT_EQ(set.join(9), 9U);
    EXPECT_EQ(set.ranges().size(), 3U);
    EXPECT_EQ(set.join(10), 20U) << "right behind it counts";
    EXPECT_EQ(set.join(55), 60U) << "so does what lies in it, and below";
    EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace via::links
