// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/respite.hpp"

#include <gtest/gtest.h>

#include <cstdint>

using namespace via;
using namespace via::na::net;

namespace {

constexpr base::Nanoseconds microsecond = 1'000;
constexpr std::uint64_t kilobyte = 1024;

TEST(Respite, KnowsNoRateAtFirst) {
    Respite respite;
    EXPECT_EQ(respite.span(1, 1024 * kilobyte, 0), 0);
    EXPECT_EQ(respite.span(1, 1000 * kilobyte, 10 * microsecond), 0) << "24 KB tell nothing";
}

TEST(Respite, IsHalfOfWhatTheRestWillTake) {
    Respite respite;
    EXPECT_EQ(respite.span(1, 192 * kilobyte, 0), 0);
    // 64 KB in 20 us, and twice as much is missing.
    EXPECT_EQ(respite.span(1, 128 * kilobyte, 20 * microsecond), 20 * microsecond);
}

TEST(Respite, IsNeverLongNorNotWorthIt) {
    Respite respite;
    EXPECT_EQ(respite.span(1, 1024 * kilobyte, 0), 0);
    EXPECT_EQ(respite.span(1, 960 * kilobyte, 20 * microsecond), Respite::longest);
    EXPECT_EQ(respite.span(1, 64 * kilobyte, 300 * microsecond), Respite::shortest);
    EXPECT_EQ(respite.span(1, 63 * kilobyte, 300 * microsecond), 0);
}

TEST(Respite, BeginsAnewWithEachMessage) {
    Respite respite;
    EXPECT_EQ(respite.span(1, 1024 * kilobyte, 0), 0);
    EXPECT_GT(respite.span(1, 512 * kilobyte, 100 * microsecond), 0);
    EXPECT_EQ(respite.span(2, 400 * kilobyte, 110 * microsecond), 0);
    EXPECT_GT(respite.span(2, 300 * kilobyte, 150 * microsecond), 0);
    // The same number on a later connection.
    EXPECT_EQ(respite.span(2, 500 * kilobyte, 160 * microsecond), 0);
}

}  // namespace
