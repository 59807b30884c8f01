// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <gtest/gtest.h>

namespace via::bench {
namespace {

TEST(TimeLeft, IsExpectedUntilItIsMeasured) {
    TimeLeft left;
    const std::size_t quick = left.add(1, 10);
    const std::size_t slow = left.add(5, 4);
    EXPECT_DOUBLE_EQ(left.seconds(), 30);
    left.taken(quick, 1);
    EXPECT_DOUBLE_EQ(left.seconds(), 29);
    // Twice as slow as thought; so the others will be.
    left.taken(quick, 2);
    EXPECT_DOUBLE_EQ(left.seconds(), 8 * 2 + 4 * 10);
    left.taken(slow, 3);
    EXPECT_DOUBLE_EQ(left.seconds(), 8 * 2 + 3 * 3) << "what was seen counts";
    left.left_out(slow);
    EXPECT_DOUBLE_EQ(left.seconds(), 8 * 2 + 2 * 3);
}

TEST(TimeLeft, NeverFallsBelowNothing) {
    TimeLeft left;
    const std::size_t kind = left.add(1, 1);
    left.taken(kind, 2);
    left.taken(kind, 2);
    left.left_out(kind);
    EXPECT_DOUBLE_EQ(left.seconds(), 0);
}

TEST(ProgressLine, HasABarAndTheTimeLeft) {
    EXPECT_EQ(progress_line(0, 100, "first", 100),
              "[····················]   0 %, 1 min 40 s left: first");
    EXPECT_EQ(progress_line(25, 75, "x", 100), "[█████···············]  25 %, 1 min 15 s left: x");
    EXPECT_EQ(progress_line(50, 0, "last", 100), "[████████████████████] 100 %, 0 s left: last");
    EXPECT_EQ(progress_line(0, 0, "nothing", 24), "[····················]  ");
}

}  // namespace
}  // namespace via::bench
