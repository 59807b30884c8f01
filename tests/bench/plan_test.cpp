// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <gtest/gtest.h>

namespace via::bench {
namespace {

Probe fixed(double value) {
    return {"fixed", Quantity::BytesPerSecond, "",
            [value]() -> base::Result<double> { return value; }};
}

Plan three_rows() {
    PlanBuilder builder;
    const std::size_t first = builder.pair("one", "", fixed(1), std::nullopt);
    const std::size_t second = builder.pair("two", "", fixed(2), std::nullopt);
    EXPECT_EQ(builder.pair("one", "", fixed(3), std::nullopt), first) << "measured once";
    const auto add = [&](const char* name, Group group, std::vector<std::size_t> pairs) {
        Row row;
        row.name = name;
        row.group = group;
        row.pairs = std::move(pairs);
        builder.row(std::move(row));
    };
    add("near", Group::InHost, {first});
    add("far", Group::BetweenHosts, {second});
    add("both", Group::BetweenHosts, {second, first});
    return builder.take();
}

TEST(Plan, AGroupKeepsItsRowsAndTheirPairs) {
    const Plan plan = only_group(three_rows(), Group::BetweenHosts);
    ASSERT_EQ(plan.rows.size(), 2U);
    ASSERT_EQ(plan.pairs.size(), 2U);
    EXPECT_EQ(plan.pairs[plan.rows[0].pairs[0]].name, "two");
    EXPECT_EQ(plan.pairs[plan.rows[1].pairs[1]].name, "one");
    EXPECT_EQ(only_group(three_rows(), Group::InHost).pairs.size(), 1U);
}

TEST(Plan, RowsAreFoundByName) {
    const auto plan = only_rows(three_rows(), {"near"});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().rows.size(), 1U);
    EXPECT_EQ(plan.value().pairs.size(), 1U);
    EXPECT_FALSE(only_rows(three_rows(), {"near", "nowhere"}).ok());
}

TEST(Probe, SeveralBecomeOne) {
    const auto sum = sum_of("sum", {fixed(2), fixed(5)}).take();
    ASSERT_TRUE(sum.ok());
    EXPECT_DOUBLE_EQ(sum.value(), 7);
    Probe broken = fixed(1);
    broken.take = []() -> base::Result<double> { return {base::Code::System, "broken"}; };
    EXPECT_FALSE(sum_of("sum", {fixed(2), broken}).take().ok());
    broken.missing = "not here";
    EXPECT_EQ(sum_of("sum", {fixed(2), broken}).missing, "not here");
}

TEST(Probe, TheBestIsOneOfThoseThatAreThere) {
    Probe absent = fixed(1);
    absent.missing = "not here";
    const Probe best = best_of("best", {fixed(2), absent, fixed(3)});
    EXPECT_EQ(best.missing, "");
    EXPECT_EQ(best.rivals.size(), 2U);
    EXPECT_DOUBLE_EQ(best.seconds, fixed(2).seconds + fixed(3).seconds);
    EXPECT_EQ(best_of("best", {absent}).missing, "not here");
}

}  // namespace
}  // namespace via::bench
