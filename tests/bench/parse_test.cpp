// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "mpi.hpp"
#include "ucx.hpp"
#include "via_tool.hpp"

namespace via::bench {
namespace {

constexpr const char* perftest_output =
    "some warning\n"
    "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
    "200000,0.253,0.254,0.255,30.13,30.14,3949411,3949412\n";

TEST(UcxColumn, FindsColumnsByName) {
    auto latency = ucx_column(perftest_output, "percentile_lat");
    ASSERT_TRUE(latency.ok()) << latency.error().sentence;
    EXPECT_DOUBLE_EQ(latency.value(), 0.253);
    auto rate = ucx_column(perftest_output, "overall_mr");
    ASSERT_TRUE(rate.ok());
    EXPECT_DOUBLE_EQ(rate.value(), 3949412);
}

TEST(UcxColumn, RefusesWhatIsNoResult) {
    EXPECT_FALSE(ucx_column("", "overall_mr").ok());
    EXPECT_FALSE(ucx_column("Failed to connect\n", "overall_mr").ok());
    EXPECT_FALSE(ucx_column(perftest_output, "no_such_column").ok());
    EXPECT_FALSE(ucx_column("iterations,overall_mr\n100,0\n", "overall_mr").ok());
    EXPECT_FALSE(ucx_column("iterations,overall_mr\n100,nonsense\n", "overall_mr").ok());
    EXPECT_FALSE(ucx_column("iterations,overall_mr\n", "overall_mr").ok());
}

TEST(MpiPoints, Parse) {
    auto points = parse_points("8 0.228\n4096 2.178e0\n");
    ASSERT_TRUE(points.ok()) << points.error().sentence;
    ASSERT_EQ(points.value().size(), 2U);
    EXPECT_EQ(points.value()[1].bytes, 4096U);
    EXPECT_DOUBLE_EQ(points.value()[1].value, 2.178);
}

TEST(MpiPoints, RefusesAnythingElse) {
    EXPECT_FALSE(parse_points("8 0.228\nmpirun has a word to say\n").ok());
    EXPECT_FALSE(parse_points("8\n").ok());
    EXPECT_FALSE(parse_points("8 -1\n").ok());
    EXPECT_FALSE(parse_points("8 1 2\n").ok());
}

TEST(JsonNumber, FindsMembers) {
    auto value = json_number(R"({"one_way_us": 0.125, "name": "x"})", "one_way_us", "via");
    ASSERT_TRUE(value.ok());
    EXPECT_DOUBLE_EQ(value.value(), 0.125);
    value = json_number(R"({"longest_stall": {"ms": 4.5}})", "longest_stall/ms", "via");
    ASSERT_TRUE(value.ok());
    EXPECT_DOUBLE_EQ(value.value(), 4.5);
    EXPECT_FALSE(json_number(R"({"longest_stall": 4.5})", "longest_stall/ms", "via").ok());
    EXPECT_FALSE(json_number(R"({"name": "x"})", "name", "via").ok());
    EXPECT_FALSE(json_number(R"({"name": "x"})", "one_way_us", "via").ok());
    EXPECT_FALSE(json_number("[1]", "one_way_us", "via").ok());
    EXPECT_FALSE(json_number("{broken", "one_way_us", "via").ok());
}

}  // namespace
}  // namespace via::bench
