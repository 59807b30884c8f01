// SPDX-License-Identifier: BSD-3-Clause
#include "row.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "runner.hpp"

namespace via::bench {
namespace {

constexpr double failed = std::numeric_limits<double>::quiet_NaN();

Pair measured_pair(Quantity quantity, std::vector<double> ours, std::vector<double> peers) {
    Pair pair;
    pair.name = "pair";
    pair.ours = {"ours", quantity, "", {}};
    pair.peer = Probe{"peer", quantity, "", {}};
    pair.our_values = std::move(ours);
    pair.peer_values = std::move(peers);
    return pair;
}

Row row_of(Relation relation, double must, std::optional<double> aim,
           std::vector<std::size_t> pairs = {0}) {
    return {"row", "row", relation, must, aim, "", std::move(pairs)};
}

TEST(Judge, AtMost) {
    const std::vector<Pair> pairs{
        measured_pair(Quantity::OneWayMicroseconds, {1, 1.2, 1.1}, {2, 2, 2})};
    EXPECT_EQ(judge(row_of(Relation::AtMost, 0.6, 0.55), pairs).verdict, Verdict::Aim);
    EXPECT_EQ(judge(row_of(Relation::AtMost, 0.6, 0.5), pairs).verdict, Verdict::Pass);
    EXPECT_EQ(judge(row_of(Relation::AtMost, 0.5, 0.4), pairs).verdict, Verdict::Miss);
    EXPECT_DOUBLE_EQ(judge(row_of(Relation::AtMost, 1, {}), pairs).value.median, 0.55);
}

TEST(Judge, AtLeast) {
    const std::vector<Pair> pairs{measured_pair(Quantity::MessagesPerSecond, {3, 3, 3}, {2, 2, 2})};
    EXPECT_EQ(judge(row_of(Relation::AtLeast, 1.5, 3), pairs).verdict, Verdict::Pass);
    EXPECT_EQ(judge(row_of(Relation::AtLeast, 1.6, 3), pairs).verdict, Verdict::Miss);
    EXPECT_EQ(judge(row_of(Relation::AtLeast, 1, 1.4), pairs).verdict, Verdict::Aim);
}

TEST(Judge, BetweenHasAnEndOnBothSides) {
    Pair pair = measured_pair(Quantity::Percent, {50}, {});
    pair.peer.reset();
    Row row = row_of(Relation::Between, 35, {});
    row.most = 65;
    for (const auto& [value, verdict] : {std::pair{34.0, Verdict::Miss},
                                         {35.0, Verdict::Pass},
                                         {65.0, Verdict::Pass},
                                         {66.0, Verdict::Miss}}) {
        pair.our_values = {value};
        EXPECT_EQ(judge(row, std::vector<Pair>{pair}).verdict, verdict) << value;
    }
}

TEST(Judge, ValueWithoutPeerStandsForItself) {
    Pair pair = measured_pair(Quantity::Kibibytes, {40, 41, 42}, {});
    pair.peer.reset();
    const std::vector<Pair> pairs{pair};
    const Judgement judgement = judge(row_of(Relation::AtMost, 96, 32), pairs);
    EXPECT_EQ(judgement.verdict, Verdict::Pass);
    EXPECT_DOUBLE_EQ(judgement.value.median, 41);
}

TEST(Judge, AheadNeedsEveryPairAndShowsTheWorst) {
    std::vector<Pair> pairs{
        measured_pair(Quantity::OneWayMicroseconds, {1, 1, 1}, {2, 2, 2}),
        measured_pair(Quantity::MessagesPerSecond, {3, 3, 3}, {2, 2, 2}),
    };
    const Row row = row_of(Relation::Ahead, 1, {}, {0, 1});
    Judgement judgement = judge(row, pairs);
    EXPECT_EQ(judgement.verdict, Verdict::Pass);
    EXPECT_EQ(judgement.ahead, 2U);
    EXPECT_EQ(judgement.deciding, 1U);
    EXPECT_DOUBLE_EQ(judgement.value.median, 1.5);

    pairs[0].our_values = {4, 4, 4};
    judgement = judge(row, pairs);
    EXPECT_EQ(judgement.verdict, Verdict::Miss);
    EXPECT_EQ(judgement.ahead, 1U);
    EXPECT_EQ(judgement.deciding, 0U);
    EXPECT_DOUBLE_EQ(judgement.value.median, 0.5);

    pairs[0].our_values = {2, 2, 2};
    EXPECT_EQ(judge(row, pairs).verdict, Verdict::Miss) << "as good as the peer is not ahead";
}

TEST(Judge, InformationIsNotJudged) {
    const std::vector<Pair> pairs{measured_pair(Quantity::OneWayMicroseconds, {9}, {1})};
    Row row = row_of(Relation::AtMost, 0, {});
    row.must.reset();
    EXPECT_EQ(judge(row, pairs).verdict, Verdict::Information);
}

TEST(Judge, MissingPeerIsNotMeasured) {
    std::vector<Pair> pairs{measured_pair(Quantity::OneWayMicroseconds, {1, 1, 1}, {})};
    pairs[0].peer_values = {failed, failed, failed};
    pairs[0].peer->missing = "install ucx-utils";
    const Judgement judgement = judge(row_of(Relation::AtMost, 10, {}), pairs);
    EXPECT_EQ(judgement.verdict, Verdict::NotMeasured);
    EXPECT_EQ(judgement.why, "install ucx-utils");
}

TEST(Judge, MostTakesMustHaveWorked) {
    std::vector<Pair> pairs{
        measured_pair(Quantity::OneWayMicroseconds, {1, failed, failed, 1}, {2, 2, 2, 2})};
    pairs[0].failures = {"it broke"};
    EXPECT_EQ(judge(row_of(Relation::AtMost, 1, {}), pairs).verdict, Verdict::NotMeasured);
    EXPECT_EQ(judge(row_of(Relation::AtMost, 1, {}), pairs).why, "it broke");
    pairs[0].our_values[1] = 1;
    EXPECT_EQ(judge(row_of(Relation::AtMost, 1, {}), pairs).verdict, Verdict::Pass);
}

/// A probe that notes when it is taken.
Probe noting_probe(const std::string& label, std::vector<std::string>& log, double value) {
    return {label, Quantity::OneWayMicroseconds, "",
            [label, &log, value]() -> base::Result<double> {
                log.push_back(label);
                if (value < 0) return {base::Code::System, label + " failed"};
                return value;
            }};
}

TEST(RunPlan, TakesInTurnAndChangesWhoGoesFirst) {
    std::vector<std::string> log;
    Plan plan;
    plan.pairs.resize(1);
    plan.pairs[0].ours = noting_probe("ours", log, 1);
    plan.pairs[0].peer = noting_probe("peer", log, 2);
    const auto curves = run_plan(plan, {.pairs = 3, .curves = 1});
    EXPECT_TRUE(curves.empty());
    const std::vector<std::string> expected{"ours", "peer", "peer", "ours", "ours", "peer"};
    EXPECT_EQ(log, expected);
    EXPECT_EQ(plan.pairs[0].our_values, std::vector<double>({1, 1, 1}));
    EXPECT_EQ(plan.pairs[0].peer_values, std::vector<double>({2, 2, 2}));
}

/// A probe that gives these, one after the other; negative ones are failures.
Probe changing_probe(const std::string& label, std::vector<double> values) {
    auto next = std::make_shared<std::size_t>(0);
    return {label, Quantity::OneWayMicroseconds, "",
            [label, values = std::move(values), next]() -> base::Result<double> {
                const double value = values[(*next)++ % values.size()];
                if (value < 0) return {base::Code::System, label + " failed"};
                return value;
            }};
}

TEST(RunPlan, TheBestPeerIsTheOneWithTheBestMedian) {
    Plan plan;
    plan.pairs.resize(1);
    plan.pairs[0].ours = changing_probe("ours", {1});
    // Each of the others has the least value once.
    plan.pairs[0].peer =
        best_of("the best of", {changing_probe("one", {1, 9, 9}), changing_probe("two", {4, 2, 3}),
                                changing_probe("three", {0.5, -1, -1})});
    (void)run_plan(plan, {.pairs = 3, .curves = 1});
    EXPECT_EQ(plan.pairs[0].peer_values, std::vector<double>({4, 2, 3}));
    EXPECT_EQ(plan.pairs[0].peer_label(), "the best of: two");
    EXPECT_EQ(plan.pairs[0].not_measured(), "");
}

TEST(RunPlan, LosesPatienceWithWhatAlwaysFails) {
    std::vector<std::string> log;
    Plan plan;
    plan.pairs.resize(1);
    plan.pairs[0].ours = noting_probe("ours", log, -1);
    (void)run_plan(plan, {.pairs = 10, .curves = 0});
    EXPECT_EQ(log.size(), 3U);
    EXPECT_EQ(plan.pairs[0].our_values.size(), 10U);
    EXPECT_EQ(plan.pairs[0].not_measured(), "ours failed");
}

TEST(RunPlan, EndsWhenItIsToldTo) {
    std::vector<std::string> log;
    Plan plan;
    plan.pairs.resize(2);
    plan.pairs[0].ours = noting_probe("first", log, 1);
    plan.pairs[1].ours = noting_probe("second", log, 1);
    (void)run_plan(plan, {.pairs = 7, .curves = 0}, [&] { return log.size() == 3; });
    EXPECT_EQ(log, std::vector<std::string>({"first", "second", "first"}));
}

TEST(RunPlan, CollectsCurves) {
    Plan plan;
    std::vector<std::size_t> sizes{8, 16};
    double value = 0;
    plan.curves.push_back(curve_of("line", sizes, [&](std::size_t) {
        return Probe{"line", Quantity::BytesPerSecond, "",
                     [&value]() -> base::Result<double> { return ++value; }};
    }));
    const auto curves = run_plan(plan, {.pairs = 1, .curves = 2});
    ASSERT_EQ(curves.size(), 1U);
    ASSERT_EQ(curves[0].points.size(), 2U);
    EXPECT_EQ(curves[0].points[0].bytes, 8U);
    EXPECT_EQ(curves[0].points[0].values, std::vector<double>({1, 3}));
    EXPECT_EQ(curves[0].points[1].values, std::vector<double>({2, 4}));
}

}  // namespace
}  // namespace via::bench
