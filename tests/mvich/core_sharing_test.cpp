// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/core_sharing.hpp"

#include <gtest/gtest.h>

namespace via::mvich {
namespace {

/// The first poll in vain after which the core is given away.
std::uint32_t first_due(const CoreSharing& sharing) {
    std::uint32_t polls = 1;
    while (!sharing.due(polls))
        ++polls;
    return polls;
}
constexpr bool after_others = true;
constexpr bool at_once = false;
constexpr base::Nanoseconds least = CoreSharing::least_of_others;

TEST(CoreSharing, NobodyIsKnownToWantTheCore) {
    CoreSharing sharing;
    EXPECT_EQ(first_due(sharing), CoreSharing::polls_alone);
    EXPECT_FALSE(sharing.due(CoreSharing::polls_alone + 1));
    EXPECT_TRUE(sharing.due(CoreSharing::polls_alone + CoreSharing::polls_between_alone));
    EXPECT_FALSE(sharing.surely_shared());
}

TEST(CoreSharing, WhoeverFindsItWantedGivesItAwayAtOnce) {
    CoreSharing sharing;
    sharing.came_back(after_others);
    for (std::uint32_t polls = 1; polls < 10; ++polls)
        EXPECT_TRUE(sharing.due(polls));
}

TEST(CoreSharing, IsMeasuredNowAndThenWhileItIsWanted) {
    CoreSharing sharing;
    for (int round = 0; round < 3; ++round) {
        sharing.came_back(after_others);
        for (std::uint32_t i = 0; i < CoreSharing::times_unmeasured; ++i)
            EXPECT_TRUE(sharing.surely_shared());
        EXPECT_FALSE(sharing.surely_shared());
    }
}

TEST(CoreSharing, ItIsOnesOwnAgainOnlyAfterSomeTimes) {
    CoreSharing sharing;
    sharing.came_back(after_others);
    for (std::uint32_t i = 1; i < CoreSharing::doubts; ++i) {
        sharing.came_back(at_once);
        EXPECT_EQ(first_due(sharing), 1U);
    }
    sharing.came_back(at_once);
    EXPECT_EQ(first_due(sharing), CoreSharing::polls_alone);
    sharing.came_back(at_once);
    EXPECT_EQ(first_due(sharing), CoreSharing::polls_alone);
}

TEST(CoreSharing, WhatSystemCallsTakeIsLearntWhereTheyAreSlow) {
    CoreSharing sharing;
    EXPECT_FALSE(sharing.is_late(least));
    EXPECT_TRUE(sharing.is_late(least + 1));
    sharing.alone_it_took(3 * least);
    EXPECT_FALSE(sharing.is_late(6 * least));
    EXPECT_TRUE(sharing.is_late(6 * least + 1));
    // The quickest counts: any other may have been disturbed by an interrupt.
    sharing.alone_it_took(50 * least);
    EXPECT_TRUE(sharing.is_late(6 * least + 1));
    sharing.alone_it_took(2 * least);
    EXPECT_TRUE(sharing.is_late(4 * least + 1));
    sharing.alone_it_took(least / 10);
    EXPECT_FALSE(sharing.is_late(least));
}

TEST(Hope, StaysWhileItIsMostlyFulfilled) {
    Hope hope;
    for (int round = 0; round < 1000; ++round) {
        EXPECT_TRUE(hope.is_due());
        if (round % 3 == 0)
            hope.disappointed();
        else
            hope.fulfilled();
    }
}

TEST(Hope, IsTriedOnlyNowAndThenAfterItWasInVainTooOften) {
    Hope hope;
    for (std::uint32_t i = 0; i < Hope::most_trust; ++i) {
        EXPECT_TRUE(hope.is_due());
        hope.disappointed();
    }
    std::uint32_t tries = 0;
    for (std::uint32_t turn = 0; turn < 10 * Hope::turns_without; ++turn) {
        if (!hope.is_due()) continue;
        ++tries;
        hope.disappointed();
    }
    EXPECT_EQ(tries, 10U);
}

TEST(Hope, ReturnsWhenItIsFulfilledAgain) {
    Hope hope;
    for (std::uint32_t i = 0; i < 2 * Hope::most_trust; ++i)
        hope.disappointed();
    EXPECT_FALSE(hope.is_due());
    hope.fulfilled();
    hope.fulfilled();
    EXPECT_TRUE(hope.is_due());
    hope.disappointed();
    EXPECT_TRUE(hope.is_due());
    hope.disappointed();
    EXPECT_FALSE(hope.is_due());
}

}  // namespace
}  // namespace via::mvich
