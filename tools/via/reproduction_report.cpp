// SPDX-License-Identifier: BSD-3-Clause
#include "reproduction_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "result_files.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using sim::FigureKind;
using sim::Laboratory;
using sim::SystemName;

std::string number(double value) {
    return fmt::format("{:.4g}", value);
}

nlohmann::json json_number(double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

bool is_single(const sim::Figure& figure) {
    return figure.kind == FigureKind::Printed || figure.kind == FigureKind::About;
}

// ---- curves -------------------------------------------------------------------------------------

struct Curve {
    const char* name;
    SystemName system;
};
constexpr std::array<Curve, 2> on_lanai4{
    {{"MyVIA", {"p3-733", "lanai4", "myvia"}}, {"Berkeley VIA", {"p3-733", "lanai4", "bvia"}}}};
constexpr std::array<Curve, 3> on_lanai9{{{"MyVIA", {"athlon-1400", "lanai9", "myvia"}},
                                          {"Berkeley VIA", {"athlon-1400", "lanai9", "bvia"}},
                                          {"GM", {"athlon-1400", "lanai9", "gm"}}}};

struct LinkCurve {
    const char* name;
    std::uint32_t links;
    sim::LinkPolicy policy;
};
constexpr std::array<LinkCurve, 4> with_links{
    {{"one link", 1, sim::LinkPolicy::Dynamic},
     {"two links, static", 2, sim::LinkPolicy::Static},
     {"two links, one way", 2, sim::LinkPolicy::OneWay},
     {"two links, dynamic", 2, sim::LinkPolicy::Dynamic}}};
constexpr SystemName gm_of_mnc{"xeon-700", "lanai9", "gm"};

constexpr std::array<const char*, 7> send_types{
    "cpu", "User", "User:ST", "User:ST,DT", "Syscall", "Syscall:ST", "Syscall:ST,DT"};

template <class Ask>
PlotSeries over_sizes(const char* name, std::uint64_t most, const Ask& ask) {
    PlotSeries series{name, "", {}};
    for (std::uint64_t bytes = 4; bytes <= most; bytes *= 2)
        series.points.push_back({static_cast<double>(bytes), ask(bytes)});
    return series;
}

void add_systems(std::vector<NamedCurves>& all, Laboratory& laboratory,
                 std::span<const Curve> curves, const std::string& name, const std::string& title) {
    constexpr std::uint64_t most_bandwidth = 65536;
    constexpr std::uint64_t most_latency = 4096;
    CurveChart bandwidth{title + ": bandwidth", "MB/s", {}, false};
    CurveChart latency{title + ": one-way time", "µs", {}, true};
    for (const Curve& curve : curves) {
        bandwidth.curves.push_back(over_sizes(curve.name, most_bandwidth, [&](std::uint64_t bytes) {
            return laboratory.window(curve.system, bytes);
        }));
        latency.curves.push_back(over_sizes(curve.name, most_latency, [&](std::uint64_t bytes) {
            return laboratory.pingpong(curve.system, bytes);
        }));
    }
    all.push_back({name + "-bandwidth", std::move(bandwidth)});
    all.push_back({name + "-latency", std::move(latency)});
}

void add_links(std::vector<NamedCurves>& all, Laboratory& laboratory) {
    constexpr std::uint64_t most = 262144;
    CurveChart bandwidth{"MNC, two LANai 9 on one bus: bandwidth", "MB/s", {}, false};
    CurveChart latency{"MNC, two LANai 9 on one bus: one-way time", "µs", {}, true};
    for (const LinkCurve& curve : with_links) {
        bandwidth.curves.push_back(over_sizes(curve.name, most, [&](std::uint64_t bytes) {
            return laboratory.mnc_window(gm_of_mnc, curve.links, curve.policy, bytes);
        }));
        latency.curves.push_back(over_sizes(curve.name, most, [&](std::uint64_t bytes) {
            return laboratory.mnc_pingpong(gm_of_mnc, curve.links, curve.policy, bytes);
        }));
    }
    all.push_back({"mnc-bandwidth", std::move(bandwidth)});
    all.push_back({"mnc-latency", std::move(latency)});
}

// ---- bars ---------------------------------------------------------------------------------------

struct HostPart {
    const char* name;
    sim::Time sim::SendBreakdown::*member;
};
constexpr std::array<HostPart, 4> host_parts{
    {{"copy structure", &sim::SendBreakdown::copy_structure},
     {"copy data", &sim::SendBreakdown::copy_data},
     {"start", &sim::SendBreakdown::start},
     {"wait for end", &sim::SendBreakdown::wait}}};

NamedBars send_bars(Laboratory& laboratory) {
    constexpr std::uint64_t bytes = 4096;
    BarChart chart{"One send of 4096 bytes on LANai 4: the host's time", "µs", {}, {}};
    for (const HostPart& part : host_parts)
        chart.parts.push_back({part.name, {}});
    for (const char* type : send_types) {
        // Without DMA only the whole is known, and it would hide the others.
        if (std::string_view(type) == "cpu") continue;
        const sim::SendBreakdown sent = laboratory.send(type, bytes);
        chart.bars.emplace_back(type);
        for (std::size_t part = 0; part < host_parts.size(); ++part)
            chart.parts[part].heights.push_back(
                sim::in_microseconds(sent.*host_parts[part].member));
    }
    return {"send-breakdown", std::move(chart)};
}

NamedBars rhinet_bars(Laboratory& laboratory) {
    constexpr std::uint64_t bytes = 4096;
    struct Version {
        const char* name;
        double clock;
        sim::Bursts bursts;
    };
    static constexpr std::array<Version, 3> versions{
        {{"16 MHz, bursts of 16", 16, sim::Bursts::Short},
         {"33 MHz, bursts of 16", 33, sim::Bursts::Short},
         {"33 MHz, long bursts", 33, sim::Bursts::Unbroken}}};
    BarChart chart{"RHiNET-1, 4096 bytes: stages on the message's path", "µs", {}, {}};
    for (std::size_t version = 0; version < versions.size(); ++version) {
        chart.bars.emplace_back(versions[version].name);
        const sim::RhinetSend sent =
            laboratory.rhinet(versions[version].clock, versions[version].bursts, bytes);
        for (const sim::RhinetStage& stage : sent.stages) {
            if (!stage.on_the_path) continue;
            auto part = std::find_if(chart.parts.begin(), chart.parts.end(),
                                     [&](const BarPart& each) { return each.name == stage.name; });
            if (part == chart.parts.end())
                part = chart.parts.insert(part,
                                          {stage.name, std::vector<double>(versions.size(), 0.0)});
            part->heights[version] += sim::in_microseconds(stage.end - stage.begin);
        }
    }
    return {"rhinet-stages", std::move(chart)};
}

nlohmann::json to_json(const CurveChart& chart) {
    nlohmann::json curves;
    for (const PlotSeries& curve : chart.curves) {
        auto points = nlohmann::json::array();
        for (const PlotPoint& point : curve.points)
            points.push_back({point.x, point.y});
        curves[curve.name] = std::move(points);
    }
    return {{"title", chart.title}, {"unit", chart.y_title}, {"curves", std::move(curves)}};
}

nlohmann::json to_json(const BarChart& chart) {
    nlohmann::json parts;
    for (const BarPart& part : chart.parts)
        parts[part.name] = part.heights;
    return {{"title", chart.title},
            {"unit", chart.y_title},
            {"bars", chart.bars},
            {"parts", std::move(parts)}};
}

}  // namespace

std::string paper_value(const sim::Figure& figure) {
    switch (figure.kind) {
        case FigureKind::Printed:
            return fmt::format("{:g}", figure.low);
        case FigureKind::About:
            return fmt::format("≈ {:g}", figure.low);
        case FigureKind::Unprinted:
            return "-";
        default:
            break;
    }
    if (!std::isfinite(figure.high)) return fmt::format("≥ {:g}", figure.low);
    if (figure.low == 0) return fmt::format("≤ {:g}", figure.high);
    return fmt::format("{:g} to {:g}", figure.low, figure.high);
}

std::string verdict(const sim::AnsweredFigure& answered) {
    if (answered.figure->kind == FigureKind::Unprinted) return "";
    return answered.is_met() ? "met" : "MISSED";
}

std::size_t count_missed(const std::vector<sim::AnsweredFigure>& answered) {
    return static_cast<std::size_t>(
        std::count_if(answered.begin(), answered.end(), [](const sim::AnsweredFigure& each) {
            return each.figure->kind != FigureKind::Unprinted && !each.is_met();
        }));
}

std::string draw_figures(const std::vector<sim::AnsweredFigure>& answered) {
    TextTable table;
    table.add_column("paper", Align::Left);
    table.add_column("figure", Align::Left);
    table.add_column("unit", Align::Left);
    table.add_column("paper's");
    table.add_column("model");
    table.add_column("error %");
    table.add_column("role", Align::Left);
    table.add_column("", Align::Left);
    for (const sim::AnsweredFigure& each : answered) {
        const sim::Figure& figure = *each.figure;
        const bool has_error = is_single(figure) || each.error_percent() != 0;
        table.add_row({std::string(figure.paper), figure.what, std::string(figure.unit),
                       paper_value(figure), number(each.model),
                       has_error ? fmt::format("{:+.1f}", each.error_percent()) : "",
                       std::string(role_name(figure.role)), verdict(each)});
    }
    return table.draw();
}

std::string draw_unmodelled() {
    TextTable table;
    table.add_column("paper", Align::Left);
    table.add_column("not modelled", Align::Left);
    table.add_column("paper's", Align::Left);
    table.add_column("because", Align::Left);
    for (const sim::UnmodelledFigure& each : sim::unmodelled_figures())
        table.add_row({std::string(each.paper), std::string(each.what), std::string(each.value),
                       std::string(each.reason)});
    return table.draw();
}

std::string draw_influences(const std::vector<sim::Influence>& influences) {
    constexpr double least = 0.5;
    TextTable table;
    table.add_column("file", Align::Left);
    table.add_column("parameter", Align::Left);
    table.add_column("value");
    table.add_column("origin", Align::Left);
    table.add_column("", Align::Left);
    table.add_column("figure", Align::Left);
    table.add_column("at -10 %");
    table.add_column("at +10 %");
    std::set<std::string> shown;
    for (const sim::Influence& each : influences) {
        const bool first = shown.insert(each.file + " " + each.parameter.name).second;
        if (each.greatest() < least && !(each.open && first)) continue;
        table.add_row({each.file, each.parameter.name,
                       fmt::format("{:g} {}", each.parameter.value, each.parameter.unit),
                       std::string(origin_name(each.parameter.origin)), each.open ? "open" : "",
                       each.figure->what, fmt::format("{:+.1f} %", each.less_percent),
                       fmt::format("{:+.1f} %", each.more_percent)});
    }
    return table.draw();
}

nlohmann::json to_json(const std::vector<sim::AnsweredFigure>& answered) {
    auto figures = nlohmann::json::array();
    for (const sim::AnsweredFigure& each : answered) {
        const sim::Figure& figure = *each.figure;
        nlohmann::json one{{"paper", figure.paper},
                           {"figure", figure.what},
                           {"unit", figure.unit},
                           {"kind", kind_name(figure.kind)},
                           {"role", role_name(figure.role)},
                           {"basis", figure.basis},
                           {"model", json_number(each.model)},
                           {"files", each.files}};
        if (is_single(figure)) one["value"] = figure.low;
        if (figure.kind != FigureKind::Unprinted) {
            one["low"] = json_number(figure.low);
            one["high"] = json_number(figure.high);
            one["tolerance_percent"] = figure.tolerance;
            one["error_percent"] = json_number(each.error_percent());
            one["met"] = each.is_met();
        }
        figures.push_back(std::move(one));
    }
    auto unmodelled = nlohmann::json::array();
    for (const sim::UnmodelledFigure& each : sim::unmodelled_figures())
        unmodelled.push_back({{"paper", each.paper},
                              {"figure", each.what},
                              {"value", each.value},
                              {"reason", each.reason}});
    return {{"figures", std::move(figures)},
            {"missed", count_missed(answered)},
            {"not_modelled", std::move(unmodelled)}};
}

nlohmann::json to_json(const std::vector<sim::Influence>& influences) {
    auto all = nlohmann::json::array();
    for (const sim::Influence& each : influences)
        all.push_back({{"file", each.file},
                       {"parameter", each.parameter.name},
                       {"value", each.parameter.value},
                       {"unit", each.parameter.unit},
                       {"origin", origin_name(each.parameter.origin)},
                       {"open", each.open},
                       {"figure", each.figure->what},
                       {"model", each.model},
                       {"percent_at_a_tenth_less", each.less_percent},
                       {"percent_at_a_tenth_more", each.more_percent}});
    return all;
}

std::vector<NamedCurves> paper_curves(Laboratory& laboratory) {
    std::vector<NamedCurves> all;
    add_systems(all, laboratory, on_lanai4, "lanai4", "LANai 4 in a Pentium III 733");
    add_systems(all, laboratory, on_lanai9, "lanai9", "LANai 9 in an Athlon 1400");
    add_links(all, laboratory);
    constexpr std::uint64_t most = 65536;
    CurveChart sends{"Who should do the work: LANai 4 in a Pentium II 300", "MB/s", {}, false};
    for (const char* type : send_types)
        sends.curves.push_back(over_sizes(
            type, most, [&](std::uint64_t bytes) { return laboratory.send_rate(type, bytes); }));
    all.push_back({"send-bandwidth", std::move(sends)});
    return all;
}

std::vector<NamedBars> paper_bars(Laboratory& laboratory) {
    return {send_bars(laboratory), rhinet_bars(laboratory)};
}

base::Result<void> write_reproduction(const nlohmann::json& report, Laboratory& laboratory,
                                      const std::string& folder) {
    if (auto created = create_folder(folder); !created) return created;
    const std::vector<NamedCurves> curves = paper_curves(laboratory);
    const std::vector<NamedBars> bars = paper_bars(laboratory);
    if (laboratory.failure()) return *laboratory.failure();
    nlohmann::json all = report;
    for (const NamedCurves& each : curves)
        all["charts"][each.name] = to_json(each.chart);
    for (const NamedBars& each : bars)
        all["charts"][each.name] = to_json(each.chart);
    const std::filesystem::path place(folder);
    if (auto written = write_text_file((place / "reproduction.json").string(), all.dump(2) + "\n");
        !written)
        return written;
    // Without gnuplot its scripts are left behind all the same.
    base::Result<void> outcome;
    const auto draw = [&](const auto& named) -> base::Result<void> {
        const std::string base_path = (place / named.name).string();
        auto drawn = draw_script(chart_script(named.chart, base_path), base_path);
        if (drawn || drawn.error().code != base::Code::NotFound) return drawn;
        outcome = drawn;
        return {};
    };
    for (const NamedCurves& each : curves)
        if (auto drawn = draw(each); !drawn) return drawn;
    for (const NamedBars& each : bars)
        if (auto drawn = draw(each); !drawn) return drawn;
    return outcome;
}

}  // namespace via::tool
