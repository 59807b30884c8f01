// SPDX-License-Identifier: BSD-3-Clause
#include "report_page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "page_chart.hpp"
#include "report_samples.hpp"
#include "xml_check.hpp"

namespace via::tool {
namespace {

using nlohmann::json;
using test::sample_report;

BenchReport sample() {
    auto report = parse_report(sample_report());
    EXPECT_TRUE(report.ok()) << report.error().sentence;
    return std::move(report).value();
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

/// The row's part of the page.
std::string part_of(const std::string& page, const std::string& row) {
    const auto begin = page.find("<tr id=\"" + row + "\">");
    if (begin == std::string::npos) return {};
    return page.substr(begin, page.find("</tr>", begin) - begin);
}

TEST(ReportPage, IsWellFormed) {
    const std::string page = report_page(sample());
    EXPECT_TRUE(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    EXPECT_EQ(test::xml_fault(page), "");
    EXPECT_EQ(page.find("<CPU>"), std::string::npos) << "words from the file are no tags";
}

TEST(ReportPage, FetchesNothing) {
    const std::string page = report_page(sample());
    for (const char* outside : {"http:", "https:", "src=", "<link", "<script", "@import", "url("})
        EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(ReportPage, CountsAndListsWhatHoldsAndWhatDoesNot) {
    const BenchReport report = sample();
    const ReportCount count = count_rows(report);
    EXPECT_EQ(count.demands, 5U) << "a row for information demands nothing";
    EXPECT_EQ(count.passed, 3U);
    EXPECT_EQ(count.aims, 1U);
    EXPECT_EQ(count.missed, 1U);
    EXPECT_EQ(count.not_measured, 1U);
    const std::string page = report_page(report);
    EXPECT_NE(page.find("<b>3 of 5</b> demands pass, 1 of them reach their aim; 1 missed, 1 not "
                        "measured."),
              std::string::npos);
    EXPECT_NE(page.find("<a href=\"#bad\">title of bad</a>: 0.80, must be ≤ 0.65"),
              std::string::npos);
    EXPECT_NE(page.find("<a href=\"#absent\">title of absent</a>: install &lt;it&gt; &amp; try"),
              std::string::npos);
}

TEST(ReportPage, HasEveryRowWithItsVerdictInWords) {
    const std::string page = report_page(sample());
    for (const auto& [row, verdict] :
         {std::pair{"good", "✓ pass, aim<"}, std::pair{"fair", "✓ pass<"},
          std::pair{"bad", "✗ MISS<"}, std::pair{"absent", "– not measured: install"},
          std::pair{"known", "for information"}, std::pair{"alone", "✓ pass<"}})
        EXPECT_NE(part_of(page, row).find(verdict), std::string::npos)
            << row << ": " << part_of(page, row);
    const std::string fair = part_of(page, "fair");
    for (const char* value :
         {"0.200 µs", "UCX &lt;tag&gt;", ">0.60<", "0.55–0.62", "≤ 0.65", "≤ 0.5<", ">7<"})
        EXPECT_NE(fair.find(value), std::string::npos) << value << " in " << fair;
    EXPECT_NE(part_of(page, "alone").find("20.0 KiB–30.0 KiB"), std::string::npos);
    EXPECT_EQ(count_of(page, "<caption>"), count_of(page, "<table")) << "every table has a caption";
}

TEST(ReportPage, DrawsAllPlots) {
    const std::string page = report_page(sample());
    for (const char* title :
         {"Inside a host: one-way latency", "Inside a host: bandwidth of a stream",
          "Inside a host: message rate of a stream", "MPI programs: one-way latency",
          "A stream over two links; one is cut and comes back",
          "Simulator against the papers, every printed number", "LANai 4"})
        EXPECT_NE(page.find(std::string("<figcaption>") + title + "</figcaption>"),
                  std::string::npos)
            << title;
    EXPECT_NE(page.find("<b>1 of 2</b> figures"), std::string::npos);
    EXPECT_NE(page.find("<b>7.5 ms</b>"), std::string::npos);
    EXPECT_NE(page.find("Not in the plots: Open MPI: install &lt;openmpi&gt;"), std::string::npos);
}

TEST(ReportPage, SaysWhetherItIsAQuickRun) {
    BenchReport report = sample();
    EXPECT_NE(report_page(report).find("A quick run"), std::string::npos);
    EXPECT_EQ(report_page(report).find("Other work ran"), std::string::npos);
    report.quick = false;
    report.load = 2;
    EXPECT_EQ(report_page(report).find("A quick run"), std::string::npos);
    EXPECT_NE(report_page(report).find("Other work ran"), std::string::npos);
}

TEST(ReportPage, SaysWhyAPartIsMissing) {
    json document = sample_report();
    document["links"] = {{"problem", "needs root"}};
    document["simulator"] = {{"problem", "no via"}};
    document["curves"] = json::array();
    const auto report = parse_report(document);
    ASSERT_TRUE(report.ok());
    const std::string page = report_page(report.value());
    EXPECT_EQ(test::xml_fault(page), "");
    EXPECT_NE(page.find("Not run: needs root"), std::string::npos);
    EXPECT_NE(page.find("Not run: no via"), std::string::npos);
}

TEST(ReportPage, TheWildestNumbersStayAPage) {
    json document = sample_report();
    for (json& row : document["rows"])
        for (json& pair : row["pairs"])
            pair["ours"]["values"] = {1e308, -1e308, 0, nullptr, 5e-324};
    for (json& curve : document["curves"])
        for (json& point : curve["points"]) {
            point["bytes"] = 1e300;
            point["median"] = -1e300;
        }
    document["curves"][0]["points"].push_back({{"bytes", 8}, {"median", 1e-300}});
    document["curves"][0]["points"].push_back({{"bytes", 16}, {"median", 1e300}});
    document["links"]["mb_per_s"] = {1e308, -1e308, 1e308};
    document["seconds"] = 1e300;
    const auto report = parse_report(document);
    ASSERT_TRUE(report.ok()) << report.error().sentence;
    EXPECT_EQ(test::xml_fault(report_page(report.value())), "");
}

TEST(Chart, LeavesOutWhatHasNoPlace) {
    PageChart chart{"t",
                    "size",
                    "µs",
                    Scale::Bytes,
                    Scale::Logarithmic,
                    {{"ours", LineStyle::Ours, {{0, 1}, {8, 0}, {8, -1}}}},
                    {}};
    EXPECT_EQ(chart_figure(chart), "") << "nothing to draw";
    chart.series[0].points.push_back({8, 2});
    const std::string figure = chart_figure(chart);
    EXPECT_EQ(test::xml_fault(figure), "");
    EXPECT_EQ(count_of(figure, "ours, 8 B: 2 µs"), 1U) << figure;
    EXPECT_EQ(count_of(figure, "<polyline"), 1U);
}

TEST(Chart, HasALegendAndTheNumbers) {
    const PageChart chart{"a & b",
                          "size",
                          "µs",
                          Scale::Bytes,
                          Scale::Logarithmic,
                          {{"ours <1>", LineStyle::Ours, {{8, 1}, {4096, 2}}},
                           {"peer", LineStyle::Peer, {{4096, 3}}},
                           {"limit", LineStyle::Limit, {{8, 0.5}, {4096, 0.5}}}},
                          {}};
    const std::string figure = chart_figure(chart);
    EXPECT_EQ(test::xml_fault(figure), "");
    EXPECT_EQ(count_of(figure, "<li>"), 3U);
    EXPECT_NE(figure.find("<th scope=\"row\">4 KB</th><td>2</td><td>3</td><td>0.5</td>"),
              std::string::npos)
        << figure;
    EXPECT_NE(figure.find("<th scope=\"row\">8 B</th><td>1</td><td></td><td>0.5</td>"),
              std::string::npos);
}

TEST(Chart, MarksStandInTheirTime) {
    const PageChart chart{"t",
                          "seconds",
                          "MB/s",
                          Scale::Linear,
                          Scale::Linear,
                          {{"rate", LineStyle::Ours, {{0.5, 10}, {1.5, 20}}}},
                          {{1, "cut"}, {99, "never"}}};
    const std::string figure = chart_figure(chart);
    EXPECT_NE(figure.find(">cut<"), std::string::npos);
    EXPECT_EQ(figure.find(">never<"), std::string::npos);
}

TEST(Strip, HasADotForEachValue) {
    const double no_number = std::numeric_limits<double>::quiet_NaN();
    const std::string strip = value_strip({{1, no_number, 2}, 1.5, 0, 0, "t"});
    EXPECT_EQ(test::xml_fault(strip), "");
    EXPECT_EQ(count_of(strip, "<circle"), 2U);
    EXPECT_EQ(count_of(strip, "<polyline"), 1U) << "the limit";
    EXPECT_EQ(value_strip({{no_number}, 1.5, 0, 0, "t"}), "");
    EXPECT_EQ(count_of(value_strip({{3}, {}, 0, 0, "t"}), "<circle"), 1U);
}

}  // namespace
}  // namespace via::tool
