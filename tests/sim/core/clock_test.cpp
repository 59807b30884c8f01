// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/clock.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "na/seeded.hpp"
#include "sim/core/rate.hpp"
#include "sim/core/time.hpp"

using namespace via::sim;
using via::test::Random;

namespace {

TEST(Time, UnitsFitTogether) {
    EXPECT_EQ(second, 1'000'000'000'000);
    EXPECT_EQ(3 * microsecond + 5 * nanosecond, 3'005'000);
}

TEST(Time, FractionsAreRoundedToTheNearestPicosecond) {
    EXPECT_EQ(microseconds(8.46), 8'460'000);
    EXPECT_EQ(microseconds(0.0000004), 0);
    EXPECT_EQ(microseconds(0.0000006), 1);
    EXPECT_EQ(nanoseconds(26.47), 26'470);
    EXPECT_EQ(nanoseconds(-0.5004), -500);
    EXPECT_DOUBLE_EQ(in_microseconds(8'460'000), 8.46);
}

TEST(Clock, CyclesOfCommonClocks) {
    EXPECT_EQ(Clock(33'000'000).cycles(1), 30'303);
    EXPECT_EQ(Clock(33'000'000).cycles(33), microsecond);
    EXPECT_EQ(Clock(133'000'000).cycles(1), 7'519);
    EXPECT_EQ(Clock(133'000'000).cycles(133'000'000), second);
    EXPECT_EQ(Clock(16'000'000).cycles(6), 375 * nanosecond);
    EXPECT_EQ(Clock(1).cycles(7), 7 * second);
    EXPECT_EQ(Clock(200'000'000).hertz(), 200'000'000U);
}

TEST(Clock, HalfAPicosecondIsRoundedUp) {
    EXPECT_EQ(Clock(2'000'000'000'000).cycles(1), 1);
    EXPECT_EQ(Clock(2'000'000'000'000).cycles(3), 2);
    EXPECT_EQ(Clock(4'000'000'000'000).cycles(1), 0);
    EXPECT_EQ(Clock(4'000'000'000'000).cycles(3), 1);
}

// Without division, so by another way than the clock's: the result t is right if
// t - 1/2 <= n 10^12 / hertz < t + 1/2.
TEST(Clock, IsExactToAPicosecondForEveryCountAndFrequency) {
    __extension__ using Signed = __int128;
    Random random(7);
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t hertz = 1 + random.next() % 5'000'000'000;
        // Up to an hour.
        const std::uint64_t count = random.next() % (3600 * hertz) >> random.below(40);
        const Time time = Clock(hertz).cycles(count);
        const Signed twice = 2 * (Signed{static_cast<std::int64_t>(count)} * second -
                                  Signed{time} * static_cast<std::int64_t>(hertz));
        ASSERT_GE(twice, -Signed{static_cast<std::int64_t>(hertz)}) << hertz << " Hz, " << count;
        ASSERT_LT(twice, Signed{static_cast<std::int64_t>(hertz)}) << hertz << " Hz, " << count;
    }
}

TEST(Clock, RoundingsDoNotAddUp) {
    const Clock clock(33'333'333);
    Time sum = 0;
    Time before = 0;
    for (std::uint64_t cycle = 1; cycle <= 33'333; ++cycle) {
        const Time edge = clock.cycles(cycle);
        const Time step = edge - before;
        ASSERT_TRUE(step == 30'000 || step == 30'001);
        sum += step;
        before = edge;
    }
    EXPECT_EQ(sum, clock.cycles(33'333));
}

TEST(Rate, BytesOverALink) {
    EXPECT_EQ(Rate(160'000'000).time_for(4096), 25'600 * nanosecond);
    EXPECT_EQ(Rate(132'000'000).time_for(0), 0);
}

TEST(Rate, WhatTakesLongerThanTimeLastsTakesForever) {
    EXPECT_EQ(Rate(1).time_for(UINT64_MAX), forever);
    EXPECT_EQ(Clock(1).cycles(9'223'372), 9'223'372 * second);
    EXPECT_EQ(Clock(1).cycles(9'223'373), forever);
}

TEST(Rate, MustNotBeZero) {
    EXPECT_THROW(Rate(0), std::invalid_argument);
    EXPECT_THROW(Clock(0), std::invalid_argument);
}

static_assert(Clock(100'000'000).cycles(3) == 30 * nanosecond, "can be a constant");

}  // namespace
