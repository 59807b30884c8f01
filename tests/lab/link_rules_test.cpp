// SPDX-License-Identifier: BSD-3-Clause
#include "lab/link_rules.hpp"

#include <gtest/gtest.h>

namespace via::lab {
namespace {

bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

TEST(LinkRules, ALinkAsUsualHasNone) {
    const LinkState usual;
    EXPECT_EQ(sending_rules(0, usual),
              "table netdev via_out_link0\ndelete table netdev via_out_link0\n");
    EXPECT_EQ(arrival_rules("link1", usual),
              "table netdev via_in_link1\ndelete table netdev via_in_link1\n");
}

TEST(LinkRules, DropsAreMadeWhereTheSenderDoesNotSeeThem) {
    LinkState state;
    state.loss = 20'000;
    EXPECT_TRUE(has(arrival_rules("link0", state), "hook ingress device \"link0\""));
    EXPECT_TRUE(has(arrival_rules("link0", state), "mod 1000000 < 20000 counter drop"));
    EXPECT_FALSE(has(sending_rules(0, state), "drop"));
    state.silent = true;
    EXPECT_TRUE(has(arrival_rules("link0", state), "  counter drop"));
    EXPECT_FALSE(has(arrival_rules("link0", state), "numgen"));
}

TEST(LinkRules, DelayTakesAllPacketsToTheRelayAndDamageOnlyItsShare) {
    LinkState state;
    state.corrupt = 1000;
    EXPECT_TRUE(has(sending_rules(1, state), "mod 1000000 < 1000 fwd to \"relay1\""));
    state.delay = 1000;
    EXPECT_TRUE(has(sending_rules(1, state), "  fwd to \"relay1\""));
    EXPECT_FALSE(has(sending_rules(1, state), "numgen"));
}

TEST(LinkRules, ADoubleIsNotDoubledAgain) {
    LinkState state;
    state.duplicate = all_parts;
    EXPECT_TRUE(has(sending_rules(0, state), "meta mark != 0x7701 meta mark set 0x7701 dup to"));
}

}  // namespace
}  // namespace via::lab
