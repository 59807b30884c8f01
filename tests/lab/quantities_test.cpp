// SPDX-License-Identifier: BSD-3-Clause
#include "lab/quantities.hpp"

#include <gtest/gtest.h>

namespace via::lab {
namespace {

TEST(Quantities, SharesAreReadAndWritten) {
    EXPECT_EQ(parse_share("2%").value(), 20'000u);
    EXPECT_EQ(parse_share("0.05%").value(), 500u);
    EXPECT_EQ(parse_share("100%").value(), all_parts);
    EXPECT_EQ(parse_share("off").value(), 0u);
    EXPECT_EQ(share_text(20'000), "2%");
    EXPECT_EQ(share_text(500), "0.05%");
    EXPECT_EQ(share_text(0), "off");
}

TEST(Quantities, RatesAreReadAndWritten) {
    EXPECT_EQ(parse_rate("1gbit").value(), 1'000'000'000u);
    EXPECT_EQ(parse_rate("2.5gbit").value(), 2'500'000'000u);
    EXPECT_EQ(parse_rate("250mbit").value(), 250'000'000u);
    EXPECT_EQ(parse_rate("64kbit").value(), 64'000u);
    EXPECT_EQ(parse_rate("off").value(), 0u);
    for (const char* text : {"1gbit", "2.5gbit", "250mbit", "64kbit", "1234567bit", "off"})
        EXPECT_EQ(rate_text(parse_rate(text).value()), text);
}

TEST(Quantities, DelaysAreReadAndWritten) {
    EXPECT_EQ(parse_delay("200us").value(), 200'000);
    EXPECT_EQ(parse_delay("1.5ms").value(), 1'500'000);
    EXPECT_EQ(parse_delay("1s").value(), 1'000'000'000);
    for (const char* text : {"200us", "1.5ms", "1s", "17ns", "off"})
        EXPECT_EQ(delay_text(parse_delay(text).value()), text);
}

TEST(Quantities, WhatMakesNoSenseIsRefusedWithAnExample) {
    for (const char* text : {"", "2", "-1%", "101%", "nan%", "2%%", "%", "on"}) {
        const auto share = parse_share(text);
        ASSERT_FALSE(share) << text;
        EXPECT_NE(share.error().sentence.find("0.05%"), std::string::npos);
    }
    for (const char* text : {"", "1", "1Gbit", "-1gbit", "1kbit", "2000gbit", "inf", "1 gbit"})
        EXPECT_FALSE(parse_rate(text)) << text;
    for (const char* text : {"", "1", "11s", "-1ms", "1min"})
        EXPECT_FALSE(parse_delay(text)) << text;
}

}  // namespace
}  // namespace via::lab
