// SPDX-License-Identifier: BSD-3-Clause
#include "lab/link_state.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace via::lab {
namespace {

TEST(LinkStateAlias, WhatIsWrittenIsReadBack) {
    LinkState state;
    EXPECT_EQ(from_alias(to_alias(state)), state);
    state.rate = 2'500'000'000;
    state.loss = 1;
    state.duplicate = 20'000;
    state.reorder = 300;
    state.corrupt = 4;
    state.delay = 200'000;
    state.seed = 77;
    state.silent = true;
    state.offload = false;
    EXPECT_EQ(from_alias(to_alias(state)), state);
}

TEST(LinkStateAlias, TheLongestFitsIntoTheKernelsField) {
    LinkState state;
    state.rate = 1'000'000'000'000;
    state.loss = state.duplicate = state.reorder = state.corrupt = all_parts;
    state.delay = 10'000'000'000;
    state.seed = std::numeric_limits<std::uint64_t>::max();
    state.silent = true;
    state.offload = false;
    EXPECT_LT(to_alias(state).size(), 255u);
    EXPECT_EQ(from_alias(to_alias(state)).seed, state.seed);
}

TEST(LinkStateAlias, WhatOthersWroteIsALinkAsUsual) {
    for (const char* alias : {"", "my cable", "rate=1", "via", "via  ", "via rate", "via x=1"})
        EXPECT_EQ(from_alias(alias), LinkState()) << alias;
}

TEST(LinkStateRelay, OnlyWhatNeedsTheRelayGoesThere) {
    LinkState state;
    state.loss = state.duplicate = 1000;
    EXPECT_FALSE(state.relayed());
    state.corrupt = 1000;
    state.reorder = 2000;
    EXPECT_TRUE(state.relayed());
    EXPECT_EQ(state.relayed_share(), 3000u);
    state.delay = 1;
    EXPECT_EQ(state.relayed_share(), all_parts);
}

}  // namespace
}  // namespace via::lab
