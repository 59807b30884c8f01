// SPDX-License-Identifier: BSD-3-Clause
#include "report_diff.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "report_samples.hpp"

namespace via::tool {
namespace {

using nlohmann::json;
using test::ratio_row;
using test::spread_json;

BenchReport report_of(const std::vector<json>& rows) {
    json document = test::sample_report();
    document["rows"] = rows;
    auto report = parse_report(document);
    EXPECT_TRUE(report.ok()) << report.error().sentence;
    return std::move(report).value();
}

/// A row with this value. Quartiles lie halfway between the median and the ends.
json row_of(double minimum, double median, double maximum, std::size_t count = 7,
            const std::string& better = "less") {
    json row = ratio_row("row", spread_json(minimum, median, maximum, count), "pass");
    row["better"] = better;
    return row;
}

ChangeKind judged(const json& before, const json& after, double tolerance = 5) {
    const BenchReport first = report_of({before});
    const BenchReport second = report_of({after});
    const ReportDiff diff = compare_reports(first, second, tolerance);
    EXPECT_EQ(diff.rows.size(), 1U);
    return diff.rows.at(0).kind;
}

TEST(Width, IsThatOfTheQuartilesWhereThereAreEnoughValues) {
    EXPECT_DOUBLE_EQ(width_of({7, 5, 1, 4, 6, 9}), 2);
    EXPECT_DOUBLE_EQ(width_of({5, 5, 1, 4, 6, 9}), 2);
    EXPECT_DOUBLE_EQ(width_of({4, 5, 1, 4, 6, 9}), 8);
    EXPECT_DOUBLE_EQ(width_of({1, 5, 5, 5, 5, 5}), 0);
}

TEST(Change, NeedsMoreThanTheTolerance) {
    // No spread at all, so the tolerance alone decides.
    const json before = row_of(1, 1, 1);
    EXPECT_EQ(judged(before, row_of(1, 1, 1)), ChangeKind::Same);
    EXPECT_EQ(judged(before, row_of(1.049, 1.049, 1.049)), ChangeKind::Same);
    EXPECT_EQ(judged(before, row_of(1.051, 1.051, 1.051)), ChangeKind::Slower);
    EXPECT_EQ(judged(before, row_of(0.951, 0.951, 0.951)), ChangeKind::Same);
    EXPECT_EQ(judged(before, row_of(0.949, 0.949, 0.949)), ChangeKind::Faster);
    EXPECT_EQ(judged(before, row_of(1.25, 1.25, 1.25), 25), ChangeKind::Same)
        << "as much is not more";
    EXPECT_EQ(judged(before, row_of(1.01, 1.01, 1.01), 0), ChangeKind::Slower);
    EXPECT_EQ(judged(before, row_of(1, 1, 1), 0), ChangeKind::Same);
}

TEST(Change, NeedsMoreThanTheSpreadOfEitherRun) {
    // Quartiles at 0.9 and 1.1: a width of 0.2.
    const json wide = row_of(0.8, 1, 1.2);
    EXPECT_EQ(judged(wide, row_of(1.19, 1.19, 1.19)), ChangeKind::Same);
    EXPECT_EQ(judged(wide, row_of(1.21, 1.21, 1.21)), ChangeKind::Slower);
    EXPECT_EQ(judged(row_of(1.21, 1.21, 1.21), wide), ChangeKind::Faster);
    EXPECT_EQ(judged(row_of(1.19, 1.19, 1.19), wide), ChangeKind::Same);
    // Three values have a width of 0.4 there.
    const json few = row_of(0.8, 1, 1.2, 3);
    EXPECT_EQ(judged(few, row_of(1.39, 1.39, 1.39)), ChangeKind::Same);
    EXPECT_EQ(judged(few, row_of(1.41, 1.41, 1.41)), ChangeKind::Slower);
}

TEST(Change, KnowsWhichSideIsBetter) {
    const json before = row_of(1, 1, 1, 7, "more");
    EXPECT_EQ(judged(before, row_of(2, 2, 2, 7, "more")), ChangeKind::Faster);
    EXPECT_EQ(judged(before, row_of(0.5, 0.5, 0.5, 7, "more")), ChangeKind::Slower);
    const json share = row_of(1, 1, 1, 7, "neither");
    EXPECT_EQ(judged(share, row_of(2, 2, 2, 7, "neither")), ChangeKind::Same);
}

TEST(Change, FromNothingIsNoPercentage) {
    const BenchReport before = report_of({row_of(0, 0, 0)});
    const BenchReport after = report_of({row_of(1, 1, 1)});
    const ReportDiff diff = compare_reports(before, after, 5);
    EXPECT_EQ(diff.rows[0].kind, ChangeKind::Slower);
    EXPECT_EQ(diff.rows[0].change_percent, 0);
}

TEST(Change, WhatWasNotMeasuredIsNotCompared) {
    EXPECT_EQ(judged(row_of(1, 1, 1), ratio_row("row", nullptr, "not measured")),
              ChangeKind::Incomparable);
    EXPECT_EQ(judged(ratio_row("row", nullptr, "not measured"), row_of(1, 1, 1)),
              ChangeKind::Incomparable);
    json other = row_of(1, 1, 1);
    other["pairs"][0]["ours"]["unit"] = "ms";
    EXPECT_EQ(judged(row_of(1, 1, 1), other), ChangeKind::Incomparable);
    other = row_of(1, 1, 1);
    other["pairs"][0].erase("peer");
    EXPECT_EQ(judged(row_of(1, 1, 1), other), ChangeKind::Incomparable);
}

TEST(Diff, RowsOfOneRunOnlyAreListed) {
    const BenchReport before = report_of({ratio_row("gone", spread_json(1, 1, 1), "pass"),
                                          ratio_row("kept", spread_json(1, 1, 1), "pass")});
    const BenchReport after = report_of({ratio_row("kept", spread_json(2, 2, 2), "MISS"),
                                         ratio_row("new", spread_json(1, 1, 1), "pass")});
    const ReportDiff diff = compare_reports(before, after, 5);
    ASSERT_EQ(diff.only_before.size(), 1U);
    EXPECT_EQ(diff.only_before[0]->name, "gone");
    ASSERT_EQ(diff.only_after.size(), 1U);
    EXPECT_EQ(diff.only_after[0]->name, "new");
    EXPECT_EQ(diff.count(ChangeKind::Slower), 1U);
    EXPECT_DOUBLE_EQ(diff.rows[0].change_percent, 100);
    const std::string text = draw_diff(diff, false);
    for (const char* expected : {"only before: gone", "only now: new", "pass → MISS", "+100.0 %",
                                 "1 slower, 0 faster, 0 the same, 0 not comparable"})
        EXPECT_NE(text.find(expected), std::string::npos) << expected << " in\n" << text;
    const json answer = to_json(diff);
    EXPECT_EQ(answer["slower"], 1);
    EXPECT_EQ(answer["rows"][0]["judgement"], "slower");
    EXPECT_EQ(answer["only_before"], json({"gone"}));
}

TEST(Diff, SameRowsAreShownOnRequest) {
    const BenchReport report = report_of({row_of(1, 1, 1)});
    const ReportDiff diff = compare_reports(report, report, 5);
    EXPECT_TRUE(diff.warnings.empty());
    EXPECT_EQ(draw_diff(diff, false), "0 slower, 0 faster, 1 the same, 0 not comparable\n");
    EXPECT_NE(draw_diff(diff, true).find("same"), std::string::npos);
}

TEST(Diff, WarnsOfWhatElseChanged) {
    BenchReport before = report_of({});
    BenchReport after = before;
    after.processor = "another";
    after.versions["UCX"] = "1.99";
    after.versions.erase("MPICH");  // it was not installed either
    after.quick = false;
    after.load = 3;
    after.settings = {};
    const ReportDiff diff = compare_reports(before, after, 5);
    ASSERT_EQ(diff.warnings.size(), 5U);
    EXPECT_NE(diff.warnings[0].find("processor"), std::string::npos);
    EXPECT_NE(diff.warnings[1].find("settings"), std::string::npos);
    EXPECT_NE(diff.warnings[2].find("UCX"), std::string::npos);
    EXPECT_NE(diff.warnings[3].find("quick"), std::string::npos);
    EXPECT_NE(diff.warnings[4].find("load 3.0"), std::string::npos);
}

}  // namespace
}  // namespace via::tool
