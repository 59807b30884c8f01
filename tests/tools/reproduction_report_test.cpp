// SPDX-License-Identifier: BSD-3-Clause
#include "reproduction_report.hpp"
#include "result_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

sim::Figure figure(sim::FigureKind kind, double low, double high, double tolerance = 0) {
    sim::Figure made;
    made.paper = "A";
    made.what = "some rate";
    made.unit = "MB/s";
    made.kind = kind;
    made.low = low;
    made.high = high;
    made.tolerance = tolerance;
    return made;
}

TEST(PaperValue, SaysWhatKindItIs) {
    using Kind = sim::FigureKind;
    const double no_end = sim::Figure::no_end;
    EXPECT_EQ(paper_value(figure(Kind::Printed, 76.2, 76.2)), "76.2");
    EXPECT_EQ(paper_value(figure(Kind::About, 4, 4)), "≈ 4");
    EXPECT_EQ(paper_value(figure(Kind::AtLeast, 240, no_end)), "≥ 240");
    EXPECT_EQ(paper_value(figure(Kind::Between, 1500, 2500)), "1500 to 2500");
    EXPECT_EQ(paper_value(figure(Kind::Order, 0, 0.8)), "≤ 0.8");
    EXPECT_EQ(paper_value(figure(Kind::Unprinted, 0, 0)), "-");
}

TEST(Report, CountsWhatIsMissedAndNotWhatIsUnprinted) {
    const sim::Figure printed = figure(sim::FigureKind::Printed, 100, 100, 2);
    const sim::Figure unprinted = figure(sim::FigureKind::Unprinted, 0, 0);
    const std::vector<sim::AnsweredFigure> answered{
        {&printed, 101, {}}, {&printed, 110, {}}, {&unprinted, 7, {}}};
    EXPECT_EQ(count_missed(answered), 1U);
    EXPECT_EQ(verdict(answered[0]), "met");
    EXPECT_EQ(verdict(answered[1]), "MISSED");
    EXPECT_EQ(verdict(answered[2]), "");
    const std::string table = draw_figures(answered);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
    EXPECT_NE(table.find("+10.0"), std::string::npos) << table;
    const nlohmann::json json = to_json(answered);
    EXPECT_EQ(json["missed"], 1);
    EXPECT_EQ(json["figures"].size(), 3U);
    EXPECT_EQ(json["figures"][1]["met"], false);
    EXPECT_FALSE(json["figures"][2].contains("met"));
    EXPECT_FALSE(json["not_modelled"].empty());
}

TEST(Report, AnEndThatIsNoneIsNullInJson) {
    const sim::Figure least = figure(sim::FigureKind::AtLeast, 240, sim::Figure::no_end);
    const nlohmann::json json = to_json(std::vector<sim::AnsweredFigure>{{&least, 250, {}}});
    EXPECT_TRUE(json["figures"][0]["high"].is_null());
    EXPECT_EQ(json["figures"][0]["low"], 240);
}

TEST(Curves, HaveALineForEachSystem) {
    sim::Laboratory laboratory({20, 1U << 20, 1});
    const auto curves = paper_curves(laboratory);
    ASSERT_FALSE(laboratory.failure());
    std::map<std::string, std::size_t> lines;
    for (const NamedCurves& each : curves) {
        lines[each.name] = each.chart.curves.size();
        for (const PlotSeries& curve : each.chart.curves)
            for (const PlotPoint& point : curve.points)
                EXPECT_GT(point.y, 0) << each.name << ", " << curve.name << " at " << point.x;
    }
    EXPECT_EQ(lines, (std::map<std::string, std::size_t>{{"lanai4-bandwidth", 2},
                                                         {"lanai4-latency", 2},
                                                         {"lanai9-bandwidth", 3},
                                                         {"lanai9-latency", 3},
                                                         {"mnc-bandwidth", 4},
                                                         {"mnc-latency", 4},
                                                         {"send-bandwidth", 7}}));
}

TEST(Bars, AddUpToTheWhole) {
    sim::Laboratory laboratory;
    const auto bars = paper_bars(laboratory);
    ASSERT_EQ(bars.size(), 2U);
    for (const NamedBars& each : bars)
        for (const BarPart& part : each.chart.parts)
            EXPECT_EQ(part.heights.size(), each.chart.bars.size()) << part.name;
    const auto height = [](const BarChart& chart, std::size_t bar) {
        double sum = 0;
        for (const BarPart& part : chart.parts)
            sum += part.heights[bar];
        return sum;
    };
    EXPECT_NEAR(height(bars[0].chart, 0),
                sim::in_microseconds(laboratory.send("User", 4096).total()), 1e-6);
    EXPECT_NEAR(height(bars[1].chart, 0),
                sim::in_microseconds(laboratory.rhinet(16, sim::Bursts::Short, 4096).total), 1e-6);
}

TEST(ChartScript, QuotesItsWords) {
    EXPECT_EQ(gnuplot_quoted("it's"), "'it''s'");
    const CurveChart chart{"a 'title'", "MB/s", {{"one", "", {{4, 1}, {8, 2.5}}}}, false};
    const std::string script = chart_script(chart, "/folder/it's");
    EXPECT_NE(script.find("set title 'a ''title'''"), std::string::npos) << script;
    EXPECT_NE(script.find("'/folder/it''s.svg'"), std::string::npos) << script;
    EXPECT_NE(script.find("'/folder/it''s.png'"), std::string::npos) << script;
    EXPECT_NE(script.find("8 2.5"), std::string::npos) << script;
}

TEST(ChartScript, StacksAllPartsOfEachBar) {
    const BarChart chart{"t", "µs", {"x", "y"}, {{"low", {1, 2}}, {"high", {3, 4}}}};
    const std::string script = chart_script(chart, "base");
    EXPECT_NE(script.find("\"x\" 1 3\n\"y\" 2 4\n"), std::string::npos) << script;
    EXPECT_NE(script.find("rowstacked"), std::string::npos) << script;
}

}  // namespace
}  // namespace via::tool
