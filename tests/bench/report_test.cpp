// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tools/xml_check.hpp"
#include "via/report_page.hpp"

namespace via::bench {
namespace {

TEST(Report, HasATableForEveryGroupOfRows) {
    Plan plan;
    Pair pair;
    pair.name = "pair";
    pair.ours = {"ours", Quantity::OneWayMicroseconds, "", {}};
    pair.peer = Probe{"peer", Quantity::OneWayMicroseconds, "", {}};
    pair.our_values = {1};
    pair.peer_values = {2};
    plan.pairs.push_back(pair);
    for (const Group group : {Group::InHost, Group::BetweenHosts, Group::Mpi}) {
        Row row{"row", "a row of " + std::string(group_name(group)), Relation::AtMost, 0.6, 0.5, "",
                {0}};
        row.group = group;
        plan.rows.push_back(row);
    }
    const std::string text = table_text(plan, {});
    std::size_t from = 0;
    for (const char* expected : {"two processes on two cores", "a row of shm", "two hosts of a lab",
                                 "a row of net", "MPI programs", "a row of mpi"}) {
        from = text.find(expected, from);
        ASSERT_NE(from, std::string::npos) << expected << " in\n" << text;
    }
}

/// A pair that gave these values.
Pair pair_of(const std::string& name, Quantity quantity, std::vector<double> ours,
             std::vector<double> peer) {
    Pair pair;
    pair.name = name;
    pair.title = name + " & co";
    pair.ours = {"via", quantity, "", {}};
    pair.our_values = std::move(ours);
    if (!peer.empty()) pair.peer = Probe{"peer <1>", quantity, "", {}};
    pair.peer_values = std::move(peer);
    return pair;
}

Row row_of(const std::string& name, Relation relation, std::optional<double> must,
           std::optional<double> aim, std::vector<std::size_t> pairs) {
    Row row;
    row.name = name;
    row.title = "the row " + name;
    row.relation = relation;
    row.must = must;
    row.aim = aim;
    row.pairs = std::move(pairs);
    return row;
}

/// Rows of every relation and verdict.
Plan made_up_run() {
    const double failed = std::numeric_limits<double>::quiet_NaN();
    Plan plan;
    plan.pairs = {pair_of("time", Quantity::OneWayMicroseconds, {1, 1.2, failed}, {2, 2, 2}),
                  pair_of("rate", Quantity::MessagesPerSecond, {3e6, 2e6, 1e6}, {1e6, 1e6, 1e6}),
                  pair_of("size", Quantity::Kibibytes, {20, 30, 40}, {}),
                  pair_of("share", Quantity::Percent, {50, 40, 90}, {}),
                  pair_of("none", Quantity::Milliseconds, {failed, failed, failed}, {})};
    plan.pairs.back().failures = {"it broke"};
    plan.rows = {row_of("aim", Relation::AtMost, 0.65, 0.6, {0}),
                 row_of("pass", Relation::AtLeast, 1.5, 3, {1}),
                 row_of("miss", Relation::AtMost, 25, 20, {2}),
                 row_of("between", Relation::Between, 35, std::nullopt, {3}),
                 row_of("ahead", Relation::Ahead, 1, std::nullopt, {0, 1}),
                 row_of("open", Relation::AtMost, 10, std::nullopt, {4}),
                 row_of("known", Relation::AtMost, std::nullopt, std::nullopt, {1})};
    plan.rows[1].stream_bytes = 4096;
    plan.rows[3].most = 65;
    plan.rows[3].must_text = "35–65 %";
    plan.rows[3].group = Group::BetweenHosts;
    plan.rows[4].must_text = "all > 1";
    return plan;
}

tool::BenchReport report_of(const Plan& plan) {
    RunFacts facts;
    facts.machine.processor = "<made up>";
    facts.quick = true;
    facts.versions = {{"via", "1"}};
    const std::vector<CurveResult> curves{
        {"via", Quantity::OneWayMicroseconds, {{8, {1, 2, 3}}}, "", Group::Mpi}};
    const auto report = tool::parse_report_text(results_json(plan, curves, facts).dump());
    EXPECT_TRUE(report.ok()) << report.error().sentence;
    return report ? report.value() : tool::BenchReport{};
}

TEST(Report, WhatIsWrittenCanBeRead) {
    using tool::Better;
    using tool::ReportVerdict;
    const tool::BenchReport report = report_of(made_up_run());
    ASSERT_EQ(report.rows.size(), 7U);
    const auto expect = [&](std::size_t index, ReportVerdict verdict, Better better, double value) {
        const tool::ReportRow& row = report.rows[index];
        EXPECT_EQ(row.verdict, verdict) << row.name;
        EXPECT_EQ(row.better, better) << row.name;
        ASSERT_TRUE(row.value) << row.name;
        EXPECT_DOUBLE_EQ(row.value->median, value) << row.name;
    };
    expect(0, ReportVerdict::Aim, Better::Less, 0.55);
    expect(1, ReportVerdict::Pass, Better::More, 2);
    expect(2, ReportVerdict::Miss, Better::Less, 30);
    expect(3, ReportVerdict::Pass, Better::Neither, 50);
    expect(4, ReportVerdict::Pass, Better::More, (2 + 2 / 1.2) / 2);
    expect(6, ReportVerdict::Information, Better::More, 2);
    EXPECT_EQ(report.rows[5].verdict, ReportVerdict::NotMeasured);
    EXPECT_EQ(report.rows[5].why, "it broke");
    EXPECT_EQ(report.rows[0].value->count, 2U) << "a take failed";
    EXPECT_EQ(report.rows[2].must, "≤ 25 KiB");
    EXPECT_EQ(report.rows[3].must, "35–65 %");
    EXPECT_EQ(report.rows[4].ahead, 2U);
    EXPECT_TRUE(report.quick);
    ASSERT_EQ(report.curves.size(), 1U);
    EXPECT_EQ(report.curves[0].group, "mpi");
    EXPECT_DOUBLE_EQ(report.curves[0].points.at(0).median, 2);
}

TEST(Report, ThePageHasEveryRow) {
    const Plan plan = made_up_run();
    const std::string page = tool::report_page(report_of(plan));
    EXPECT_EQ(tool::test::xml_fault(page), "");
    for (const Row& row : plan.rows) {
        const auto begin = page.find("<tr id=\"" + row.name + "\">");
        ASSERT_NE(begin, std::string::npos) << row.name;
        const std::string part = page.substr(begin, page.find("</tr>", begin) - begin);
        std::string verdict(verdict_name(judge(row, plan.pairs).verdict));
        if (verdict.empty()) verdict = "for information";
        EXPECT_NE(part.find(verdict), std::string::npos) << part;
    }
    const tool::ReportCount count = tool::count_rows(report_of(plan));
    EXPECT_EQ(count.demands, 6U);
    EXPECT_EQ(count.passed, 4U);
    EXPECT_EQ(count.missed, 1U);
    EXPECT_EQ(count.not_measured, 1U);
}

}  // namespace
}  // namespace via::bench
