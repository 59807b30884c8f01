// SPDX-License-Identifier: BSD-3-Clause
#include "base/nap.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>

using namespace via::base;

namespace {

TEST(Nap, LastsAsLongAsWanted) {
    const Nanoseconds begin = machine_now();
    nap(2'000'000);
    EXPECT_GE(machine_now() - begin, 2'000'000);
    nap(0);
    nap(-1);
}

TEST(Nap, LeavesTheThreadAsItWas) {
    ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 123'456UL, 0, 0, 0), 0);
    nap(10'000);
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 123'456);
    ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 0UL, 0, 0, 0), 0);  // the default
}

}  // namespace
