// SPDX-License-Identifier: BSD-3-Clause
#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/quick_clock.hpp"

using namespace via::base;

namespace {

constexpr Nanoseconds second = 1'000'000'000;

TEST(Clock, MonotonicTimeNeverGoesBack) {
    Nanoseconds before = monotonic_now();
    for (int i = 0; i < 10000; ++i) {
        const Nanoseconds now = monotonic_now();
        ASSERT_GE(now, before);
        before = now;
    }
}

TEST(QuickClock, IsNeverEarlyAndNeverGoesBack) {
    QuickClock clock;
    constexpr Nanoseconds long_enough_to_be_set_often = 60'000'000;
    // The counter's speed is known to a few millionths, and it is set every millisecond.
    constexpr Nanoseconds rounding = 5'000;
    const Nanoseconds begin = monotonic_now();
    Nanoseconds before = 0;
    for (;;) {
        const Nanoseconds earliest = monotonic_now();
        const Nanoseconds now = clock.now();
        ASSERT_GE(now + rounding, before);
        ASSERT_LE(now, monotonic_now() + rounding);
        before = now;
        if (earliest - begin > long_enough_to_be_set_often) break;
    }
}

TEST(Deadline, NeverIsNeverExpired) {
    const Deadline never = Deadline::never();
    EXPECT_TRUE(never.is_never());
    EXPECT_FALSE(never.expired());
    EXPECT_FALSE(never.expired(std::numeric_limits<Nanoseconds>::max()));
    EXPECT_EQ(never.poll_milliseconds(), -1);
}

TEST(Deadline, ExpiresAtItsMoment) {
    const Deadline deadline = Deadline::at(5 * second);
    EXPECT_FALSE(deadline.expired(5 * second - 1));
    EXPECT_TRUE(deadline.expired(5 * second));
    EXPECT_EQ(deadline.remaining(3 * second), 2 * second);
    EXPECT_EQ(deadline.remaining(9 * second), 0);
}

TEST(Deadline, ZeroMillisecondsIsExpiredAtOnce) {
    EXPECT_TRUE(Deadline::after_milliseconds(0).expired());
    EXPECT_EQ(Deadline::after_milliseconds(0).poll_milliseconds(), 0);
}

TEST(Deadline, AnHourIsNotOverYet) {
    const Deadline deadline = Deadline::after_milliseconds(3'600'000);
    EXPECT_FALSE(deadline.expired());
    EXPECT_GT(deadline.poll_milliseconds(), 3'000'000);
    EXPECT_LE(deadline.poll_milliseconds(), 3'600'000);
}

TEST(Deadline, HugeSpansMeanNeverInsteadOfOverflowing) {
    EXPECT_TRUE(Deadline::after(std::numeric_limits<Nanoseconds>::max()).is_never());
    EXPECT_TRUE(Deadline::after_milliseconds(std::numeric_limits<std::uint64_t>::max()).is_never());
}

TEST(Deadline, PollTimeIsRoundedUpAndFitsAnInt) {
    EXPECT_GE(Deadline::after(1'000'500'000).poll_milliseconds(), 1);
    // 49 days in milliseconds do not fit into an int.
    EXPECT_EQ(Deadline::after_milliseconds(0xFFFFFFFFULL).poll_milliseconds(),
              std::numeric_limits<int>::max());
    // A wait must not end before its moment: one nanosecond left is one millisecond of poll.
    const Deadline soon = Deadline::after(50'000'000);
    const int poll = soon.poll_milliseconds();
    EXPECT_TRUE(poll >= 1 || soon.expired());
}

TEST(Deadline, TheEarlierOfTwo) {
    const Deadline first = Deadline::at(second);
    const Deadline second_one = Deadline::at(2 * second);
    EXPECT_EQ(first.earlier(second_one).moment(), second);
    EXPECT_EQ(second_one.earlier(first).moment(), second);
    EXPECT_EQ(Deadline::never().earlier(first).moment(), second);
}

}  // namespace
