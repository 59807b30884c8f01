// SPDX-License-Identifier: BSD-3-Clause
#include "report_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>

#include "report_samples.hpp"

namespace via::tool {
namespace {

using nlohmann::json;
using test::sample_report;

/// What the reader says of a report after `change`.
std::string sentence_after(const std::function<void(json&)>& change) {
    json document = sample_report();
    change(document);
    const auto report = parse_report(document);
    return report ? std::string() : report.error().sentence;
}

TEST(ReportFile, EverythingIsRead) {
    const auto read = parse_report_text(sample_report().dump());
    ASSERT_TRUE(read.ok()) << read.error().sentence;
    const BenchReport& report = read.value();
    EXPECT_TRUE(report.quick);
    EXPECT_EQ(report.processors, 2U);
    EXPECT_EQ(report.cores, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(report.versions.at("UCX"), "1.13");
    ASSERT_EQ(report.rows.size(), 6U);
    const ReportRow& row = report.rows[0];
    EXPECT_EQ(row.verdict, ReportVerdict::Aim);
    EXPECT_EQ(row.better, Better::Less);
    EXPECT_DOUBLE_EQ(row.value->median, 0.45);
    EXPECT_EQ(row.value->count, 7U);
    ASSERT_EQ(row.pair().ours.values.size(), 3U);
    EXPECT_TRUE(std::isnan(row.pair().ours.values[1])) << "a take that failed";
    ASSERT_TRUE(row.pair().peer);
    EXPECT_FALSE(report.rows[3].value);
    EXPECT_FALSE(report.rows[5].pair().peer);
    EXPECT_EQ(report.curves.size(), 9U);
    ASSERT_TRUE(report.links);
    EXPECT_EQ(report.links->curves.size(), 3U);
    EXPECT_EQ(report.links->marks.size(), 2U);
    ASSERT_TRUE(report.simulator);
    EXPECT_EQ(report.simulator->figures.size(), 3U);
    EXPECT_FALSE(report.simulator->figures[2].met);
    EXPECT_EQ(report.simulator->charts.size(), 1U) << "bars have no curves";
}

TEST(ReportFile, WhatIsOptionalMayBeAbsent) {
    EXPECT_EQ(sentence_after([](json& all) {
                  all.erase("links");
                  all.erase("simulator");
                  all.erase("quick");
              }),
              "");
    EXPECT_EQ(sentence_after([](json& all) { all["links"] = {{"problem", "no root"}}; }), "");
    EXPECT_EQ(sentence_after([](json& all) { all["simulator"] = {{"problem", "no"}}; }), "");
}

TEST(ReportFile, AFaultIsNamedByItsPlace) {
    const std::vector<std::pair<std::function<void(json&)>, std::string>> faults{
        {[](json& all) { all = json::array(); }, "this is no object"},
        {[](json& all) { all.erase("schema"); }, "it has no \"schema\""},
        {[](json& all) { all["schema"] = "2"; }, "it has no \"schema\""},
        {[](json& all) { all["schema"] = 99; }, "its schema is 99, and this program reads 2"},
        {[](json& all) { all.erase("rows"); }, "rows is missing"},
        {[](json& all) { all["rows"] = 5; }, "rows is no list"},
        {[](json& all) { all["rows"][1] = 5; }, "rows[1].name is missing"},
        {[](json& all) { all["machine"].erase("kernel"); }, "machine.kernel is missing"},
        {[](json& all) { all["machine"]["processors"] = -1; }, "machine.processors is no count"},
        {[](json& all) { all["machine"]["processors"] = 1.5; }, "machine.processors is no count"},
        {[](json& all) { all["seconds"] = "long"; }, "seconds is no number"},
        {[](json& all) { all["quick"] = 1; }, "quick is neither true nor false"},
        {[](json& all) { all["rows"][0]["verdict"] = "fine"; }, "rows[0].verdict is no verdict"},
        {[](json& all) { all["rows"][0]["better"] = "red"; }, "rows[0].better is none of"},
        {[](json& all) { all["rows"][0]["value"] = nullptr; }, "rows[0].value is missing"},
        {[](json& all) { all["rows"][0]["value"]["median"] = nullptr; },
         "rows[0].value.median is missing"},
        {[](json& all) { all["rows"][0]["value"]["median"] = 9; }, "rows[0].value is not in order"},
        {[](json& all) { all["rows"][0]["value"]["count"] = 0; },
         "rows[0].value is a spread of no values"},
        {[](json& all) { all["rows"][0]["pairs"] = json::array(); },
         "rows[0] has no pair of values that decides"},
        {[](json& all) { all["rows"][0]["deciding"] = 1; },
         "rows[0] has no pair of values that decides"},
        {[](json& all) { all["rows"][0]["pairs"][0]["ours"]["values"][0] = "x"; },
         "rows[0].pairs[0].ours.values[0] is no number"},
        {[](json& all) { all["rows"][0]["pairs"][0].erase("failures"); },
         "rows[0].pairs[0].failures is missing"},
        {[](json& all) { all["curves"][0]["points"][1].erase("bytes"); },
         "curves[0].points[1].bytes is missing"},
        {[](json& all) { all["links"]["interval_s"] = 0; }, "links.interval_s is not above 0"},
        {[](json& all) { all["links"]["links"][0] = 1; }, "links.links[0] is no list"},
        {[](json& all) { all["simulator"]["figures"][0].erase("model"); },
         "simulator.figures[0].model is missing"},
        {[](json& all) { all["simulator"]["charts"]["lanai4"]["curves"]["MyVIA"][0] = {1}; },
         "simulator.charts.lanai4.curves.MyVIA[0] is no pair of numbers"},
    };
    for (const auto& [change, expected] : faults)
        EXPECT_TRUE(sentence_after(change).starts_with(expected))
            << sentence_after(change) << " instead of " << expected;
}

TEST(ReportFile, WhatIsNoJsonSaysWhere) {
    for (const std::string& text :
         {std::string(), std::string("{\"schema\": 2,"), std::string("{\"a\": 1e999}"),
          std::string("\"\xff\""), std::string("\0", 1)}) {
        const auto report = parse_report_text(text);
        ASSERT_FALSE(report.ok()) << text;
        EXPECT_TRUE(report.error().sentence.starts_with("this is no JSON: "))
            << report.error().sentence;
    }
}

TEST(ReportFile, EveryCutOfAFileIsRefused) {
    const std::string whole = sample_report().dump();
    ASSERT_TRUE(parse_report_text(whole).ok());
    for (std::size_t length = 0; length < whole.size(); length += 7)
        EXPECT_FALSE(parse_report_text(std::string_view(whole).substr(0, length)).ok()) << length;
}

TEST(ReportFile, DeepNestingIsNoDanger) {
    std::string deep = "{\"schema\": 2, \"rows\": ";
    deep.append(200'000, '[');
    EXPECT_FALSE(parse_report_text(deep).ok());
    deep.append(200'000, ']');
    EXPECT_FALSE(parse_report_text(deep + "}").ok());
}

TEST(ReportFile, ThePathStandsInTheSentence) {
    const auto absent = read_report("/nowhere/bench.json");
    ASSERT_FALSE(absent.ok());
    EXPECT_NE(absent.error().sentence.find("/nowhere/bench.json"), std::string::npos);
    const auto folder = read_report("/");
    ASSERT_FALSE(folder.ok()) << "a folder";
    EXPECT_NE(folder.error().sentence.find("/"), std::string::npos);
    const std::string path = testing::TempDir() + "broken_report.json";
    std::ofstream(path) << "{\"schema\": 1}";
    const auto old = read_report(path);
    ASSERT_FALSE(old.ok());
    EXPECT_TRUE(old.error().sentence.starts_with(path + ": its schema is 1"))
        << old.error().sentence;
    std::remove(path.c_str());
}

TEST(ReportFile, ControlCharactersAreNotShown) {
    json document = sample_report();
    document["machine"]["processor"] = "a\x1b[31mb\nc";
    const auto report = parse_report(document);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report.value().processor, "a?[31mb?c");
}

}  // namespace
}  // namespace via::tool
