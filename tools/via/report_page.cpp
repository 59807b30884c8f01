// SPDX-License-Identifier: BSD-3-Clause
#include "report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "drawing.hpp"
#include "page_chart.hpp"
#include "quantity.hpp"

namespace via::tool {
namespace {

struct GroupWords {
    std::string_view group;
    std::string_view title;
    std::string_view words;
};
constexpr std::array<GroupWords, 4> group_words{
    {{"shm", "Inside a host",
      "Two processes on two cores, messages of VIPL, beside UCX and the bare machine."},
     {"net", "Between hosts",
      "Two hosts out of network namespaces, joined by virtual links, beside plain UDP and TCP, "
      "Open MPI and libfabric over TCP."},
     {"mpi", "MPI programs",
      "The same MPI program over Viaduct's libfabric provider and over each peer."},
     {"sim", "Simulator", "The core of the simulator by itself."}}};

std::string escaped(std::string_view text) {
    return xml_escaped(std::string(text));
}

std::string group_title(std::string_view group) {
    for (const GroupWords& each : group_words)
        if (each.group == group) return std::string(each.title);
    return std::string(group);
}

std::string shown_duration(double seconds) {
    if (!(seconds >= 0 && seconds < 1e9)) return "?";
    const long whole = std::lround(seconds);
    return whole < 60 ? fmt::format("{} s", whole)
                      : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

const char* style_of(ReportVerdict verdict) {
    switch (verdict) {
        case ReportVerdict::Aim:
        case ReportVerdict::Pass:
            return "pass";
        case ReportVerdict::Miss:
            return "miss";
        case ReportVerdict::Information:
        case ReportVerdict::NotMeasured:
            break;
    }
    return "open";
}

/// A sign, so that colour is not all that tells them apart, and the word.
std::string shown_verdict(const ReportRow& row) {
    switch (row.verdict) {
        case ReportVerdict::Aim:
            return "✓ pass, aim";
        case ReportVerdict::Pass:
            return "✓ pass";
        case ReportVerdict::Miss:
            return "✗ MISS";
        case ReportVerdict::Information:
            return "for information";
        case ReportVerdict::NotMeasured:
            break;
    }
    return "– not measured: " + row.why;
}

std::string full_title(const ReportRow& row) {
    if (row.pairs.size() < 2 || row.verdict == ReportVerdict::NotMeasured) return row.title;
    return fmt::format("{}: {} of {} ahead, worst {}", row.title, row.ahead, row.pairs.size(),
                       row.pair().title);
}

/// Ours ÷ peer of each repetition, or as the row turns it.
std::vector<double> compared(const ReportRow& row, const ReportPair& pair) {
    if (!pair.peer) return pair.ours.values;
    std::vector<double> values;
    const std::size_t count = std::min(pair.ours.values.size(), pair.peer->values.size());
    const auto quantity = quantity_of(pair.ours.unit);
    const bool turned = row.advantage && quantity && less_is_better(*quantity);
    for (std::size_t index = 0; index < count; ++index) {
        const double ours = pair.ours.values[index];
        const double theirs = pair.peer->values[index];
        values.push_back(turned ? theirs / ours : ours / theirs);
    }
    return values;
}

std::string cell(std::string_view label, std::string_view content, std::string_view style = {}) {
    return fmt::format("<td data-label=\"{}\"{}>{}</td>", label,
                       style.empty() ? "" : fmt::format(" class=\"{}\"", style), content);
}

std::string row_cells(const ReportRow& row) {
    const ReportPair& pair = row.pair();
    std::string text = fmt::format("<tr id=\"{}\"><th scope=\"row\">{}</th>", escaped(row.name),
                                   escaped(full_title(row)));
    text += cell("ours", escaped(shown_side(pair.ours, row.stream_bytes)));
    text += cell("peer", pair.peer ? fmt::format("<span>{} <small>{}</small></span>",
                                                 escaped(shown_side(*pair.peer, row.stream_bytes)),
                                                 escaped(pair.peer->label))
                                   : std::string("–"));
    const bool measured = row.value && row.verdict != ReportVerdict::NotMeasured;
    text += cell("ratio", measured && pair.peer ? shown_row_value(row, row.value->median) : "–");
    text +=
        cell("min–max", measured ? fmt::format("{}–{}", shown_row_value(row, row.value->minimum),
                                               shown_row_value(row, row.value->maximum))
                                 : std::string("–"));
    text += cell("must", escaped(row.must));
    text += cell("aim", escaped(row.aim));
    text += cell("verdict", escaped(shown_verdict(row)),
                 fmt::format("verdict {}", style_of(row.verdict)));
    text += cell("repetitions", measured ? std::to_string(row.value->count) : "0");
    text += cell("each take", measured ? value_strip({compared(row, pair), row.limit, 0, 0,
                                                      row.title + ": single values"})
                                       : std::string());
    return text + "</tr>\n";
}

std::string table_of(const std::string& caption, const std::string& rows) {
    return fmt::format(
        "<div class=\"wide\"><table class=\"rows\"><caption>{}</caption><thead><tr>"
        "<th scope=\"col\">measure</th><th scope=\"col\">ours</th><th scope=\"col\">peer</th>"
        "<th scope=\"col\">ratio</th><th scope=\"col\">min–max</th><th scope=\"col\">must</th>"
        "<th scope=\"col\">aim</th><th scope=\"col\" class=\"verdict\">verdict</th><th "
        "scope=\"col\">n</th>"
        "<th scope=\"col\">each take</th></tr></thead><tbody>\n{}</tbody></table></div>\n",
        escaped(caption), rows);
}

/// The pairs of a row that has several, each as a row of its own.
std::string sizes_of(const ReportRow& row) {
    std::string rows;
    for (std::size_t index = 0; index < row.pairs.size(); ++index) {
        const ReportPair& pair = row.pairs[index];
        rows += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(pair.title));
        rows += cell("ours", escaped(shown_side(pair.ours)));
        rows += cell("peer", pair.peer ? escaped(shown_side(*pair.peer)) : std::string("–"));
        rows += cell("ours ÷ peer", pair.ratio ? fmt::format("{:.2f}", pair.ratio->median) : "–");
        rows += cell("min–max", pair.ratio ? fmt::format("{:.2f}–{:.2f}", pair.ratio->minimum,
                                                         pair.ratio->maximum)
                                           : std::string("–"));
        rows += cell("each take", value_strip({compared(row, pair), row.limit, 0, 0, pair.title}));
        rows += "</tr>\n";
    }
    return fmt::format(
        "<details><summary>{}: each size</summary><div class=\"wide\"><table class=\"rows\">"
        "<caption>{}</caption><thead><tr><th scope=\"col\">size</th><th scope=\"col\">ours</th>"
        "<th scope=\"col\">peer</th><th scope=\"col\">ours ÷ peer</th><th scope=\"col\">min–max"
        "</th><th scope=\"col\">each take (advantage)</th></tr></thead><tbody>\n{}</tbody></table>"
        "</div></details>\n",
        escaped(row.title), escaped(row.title), rows);
}

std::vector<std::string> groups_of(const BenchReport& report) {
    std::vector<std::string> groups;
    const auto add = [&](const std::string& group) {
        if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    };
    for (const GroupWords& each : group_words) {
        const std::string group(each.group);
        if (std::any_of(report.rows.begin(), report.rows.end(),
                        [&](const ReportRow& row) { return row.group == group; }))
            add(group);
    }
    for (const ReportRow& row : report.rows)
        add(row.group);
    for (const ReportCurve& curve : report.curves)
        add(curve.group);
    return groups;
}

LineStyle line_style(const std::string& label) {
    if (label.starts_with("via") || label.ends_with("over via")) return LineStyle::Ours;
    if (label.starts_with("bare") || label.starts_with("memcpy")) return LineStyle::Limit;
    return LineStyle::Peer;
}

/// One plot of a group: the curves of a unit, each value times `factor`, or as messages.
std::string curve_plot(const BenchReport& report, const std::string& group, std::string_view unit,
                       const std::string& title, const std::string& y_title, double factor,
                       bool as_messages = false) {
    PageChart chart;
    chart.title = title;
    chart.x_title = "message size";
    chart.y_title = y_title;
    for (const ReportCurve& curve : report.curves) {
        if (curve.group != group || curve.unit != unit) continue;
        const LineStyle style = line_style(curve.label);
        // How many messages memory could copy says nothing.
        if (as_messages && style == LineStyle::Limit) continue;
        PageSeries series{curve.label, style, {}};
        for (const ReportPoint& point : curve.points)
            if (point.bytes > 0)
                series.points.push_back(
                    {point.bytes, point.median * factor / (as_messages ? point.bytes : 1)});
        if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    return chart_figure(chart);
}

std::string plots_of(const BenchReport& report, const std::string& group) {
    const std::string title = group_title(group);
    std::string text =
        curve_plot(report, group, "us", title + ": one-way latency", "µs, median", 1) +
        curve_plot(report, group, "bytes/s", title + ": bandwidth of a stream", "GB/s", 1e-9) +
        curve_plot(report, group, "bytes/s", title + ": message rate of a stream",
                   "million messages/s", 1e-6, true);
    if (!text.empty()) text = "<div class=\"plots\">" + text + "</div>\n";
    std::set<std::string> problems;
    for (const ReportCurve& curve : report.curves)
        if (curve.group == group && !curve.problem.empty())
            problems.insert(curve.label + ": " + curve.problem);
    for (const std::string& problem : problems)
        text += fmt::format("<p class=\"open\">Not in the plots: {}</p>\n", escaped(problem));
    return text;
}

std::string group_section(const BenchReport& report, const std::string& group) {
    std::string laws;
    std::string information;
    std::string sizes;
    for (const ReportRow& row : report.rows) {
        if (row.group != group) continue;
        (row.must.empty() ? information : laws) += row_cells(row);
        if (row.pairs.size() > 1) sizes += sizes_of(row);
    }
    std::string text = fmt::format("<section><h2 id=\"group-{}\">{}</h2>\n", escaped(group),
                                   escaped(group_title(group)));
    for (const GroupWords& each : group_words)
        if (each.group == group) text += fmt::format("<p>{}</p>\n", escaped(each.words));
    if (!laws.empty()) text += table_of(group_title(group) + ": what is demanded", laws);
    text += sizes;
    if (!information.empty())
        text += table_of(group_title(group) + ": for information", information);
    return text + plots_of(report, group) + "</section>\n";
}

std::string links_section(const ReportLinks& links) {
    std::string text = "<section><h2 id=\"links\">Links over time</h2>\n";
    if (!links.problem.empty())
        return text +
               fmt::format("<p class=\"open\">Not run: {}</p></section>\n", escaped(links.problem));
    PageChart chart;
    chart.title = "A stream over two links; one is cut and comes back";
    chart.x_title = "seconds";
    chart.y_title = "MB/s";
    chart.x = Scale::Linear;
    chart.y = Scale::Linear;
    chart.marks = links.marks;
    for (std::size_t index = 0; index < links.curves.size(); ++index) {
        const TimeCurve& curve = links.curves[index];
        PageSeries series{curve.name, index == 0 ? LineStyle::Ours : LineStyle::Peer, {}};
        // The last interval is hardly ever a whole one.
        for (std::size_t at = 0; at + 1 < curve.values.size(); ++at)
            series.points.push_back(
                {(static_cast<double>(at) + 0.5) * links.interval, curve.values[at]});
        chart.series.push_back(std::move(series));
    }
    text += "<div class=\"plots\">" + chart_figure(chart) + "</div>\n";
    return text + fmt::format(
                      "<p>Longest time in which the receiver confirmed nothing: <b>{:.1f} ms</b>, "
                      "{:.2f} s after the start. The same by hand: <code>via lab demo</code>.</p>"
                      "</section>\n",
                      links.stall_ms, links.stall_at);
}

std::string paper_words(const ReportFigure& figure) {
    if (!figure.met || !figure.low) return "–";
    if (figure.kind == "printed") return fmt::format("{:g}", *figure.low);
    if (figure.kind == "about") return fmt::format("≈ {:g}", *figure.low);
    if (!figure.high) return fmt::format("≥ {:g}", *figure.low);
    if (*figure.low == *figure.high) return fmt::format("{:g}", *figure.low);
    if (*figure.low == 0) return fmt::format("≤ {:g}", *figure.high);
    return fmt::format("{:g} to {:g}", *figure.low, *figure.high);
}

std::string figure_rows(const ReportSimulator& simulator) {
    std::string text;
    for (const ReportFigure& figure : simulator.figures) {
        text += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(figure.what));
        text += cell("paper", escaped(figure.paper));
        text += cell("unit", escaped(figure.unit.empty() ? "ratio" : figure.unit));
        text += cell("paper's", escaped(paper_words(figure)));
        text += cell("model's", fmt::format("{:.4g}", figure.model));
        text += cell("error", figure.met && figure.error_percent
                                  ? fmt::format("{:+.1f} %", *figure.error_percent)
                                  : std::string("–"));
        text += cell("role", escaped(figure.role));
        if (figure.met)
            text += cell("verdict", *figure.met ? "✓ met" : "✗ MISSED",
                         *figure.met ? "verdict pass" : "verdict miss");
        else
            text += cell("verdict", "not printed", "verdict open");
        text += cell("error beside what is allowed",
                     figure.met && figure.error_percent
                         ? value_strip({{*figure.error_percent},
                                        0.0,
                                        -figure.tolerance_percent,
                                        figure.tolerance_percent,
                                        figure.what + ": error in percent"})
                         : std::string());
        text += "</tr>\n";
    }
    return text;
}

/// Every printed number against the model's; what agrees lies on the line.
std::string figures_plot(const ReportSimulator& simulator) {
    PageChart chart;
    chart.title = "Simulator against the papers, every printed number";
    chart.x_title = "the paper's value";
    chart.y_title = "the model's value, same unit";
    chart.x = Scale::Logarithmic;
    chart.y = Scale::Logarithmic;
    std::vector<std::string> papers;
    double low = 0;
    double high = 0;
    for (const ReportFigure& figure : simulator.figures) {
        const bool number = figure.kind == "printed" || figure.kind == "about";
        if (!number || !figure.low || !(*figure.low > 0) || !(figure.model > 0)) continue;
        if (std::find(papers.begin(), papers.end(), figure.paper) == papers.end()) {
            papers.push_back(figure.paper);
            chart.series.push_back({"paper " + figure.paper, LineStyle::Dots, {}});
        }
        const auto paper = std::find(papers.begin(), papers.end(), figure.paper);
        chart.series[static_cast<std::size_t>(paper - papers.begin())].points.push_back(
            {*figure.low, figure.model});
        low = low == 0 ? *figure.low : std::min(low, *figure.low);
        high = std::max(high, *figure.low);
    }
    if (papers.empty()) return {};
    chart.series.push_back({"equal", LineStyle::Limit, {{low, low}, {high, high}}});
    return chart_figure(chart);
}

std::string simulator_section(const ReportSimulator& simulator) {
    std::string text = "<section><h2 id=\"simulator\">Simulator against papers</h2>\n";
    if (!simulator.problem.empty())
        return text + fmt::format("<p class=\"open\">Not run: {}</p></section>\n",
                                  escaped(simulator.problem));
    std::size_t printed = 0;
    std::size_t met = 0;
    for (const ReportFigure& figure : simulator.figures) {
        if (!figure.met) continue;
        ++printed;
        if (*figure.met) ++met;
    }
    text += fmt::format(
        "<p><b>{} of {}</b> figures that the papers print are met. <i>Fitted</i> ones chose a "
        "parameter, <i>predicted</i> ones did not. The same by hand: <code>via sim reproduce"
        "</code>.</p>\n<div class=\"plots\">{}",
        met, printed, figures_plot(simulator));
    for (const ReportChart& each : simulator.charts) {
        PageChart chart;
        chart.title = each.title;
        chart.x_title = "bytes";
        chart.y_title = each.unit;
        chart.y = each.unit == "µs" ? Scale::Logarithmic : Scale::Linear;
        for (const auto& [name, points] : each.curves) {
            PageSeries series{name, LineStyle::Peer, {}};
            for (const auto& [x, y] : points)
                series.points.push_back({x, y});
            chart.series.push_back(std::move(series));
        }
        text += chart_figure(chart);
    }
    return text + fmt::format(
                      "</div>\n<details><summary>All figures</summary><div class=\"wide\"><table "
                      "class=\"rows\"><caption>The papers' figures and the simulator's</caption>"
                      "<thead><tr><th scope=\"col\">figure</th><th scope=\"col\">paper</th>"
                      "<th scope=\"col\">unit</th><th scope=\"col\">paper's</th><th scope=\"col\">"
                      "model's</th><th scope=\"col\">error</th><th scope=\"col\">role</th>"
                      "<th scope=\"col\" class=\"verdict\">verdict</th><th scope=\"col\">error "
                      "beside what is allowed"
                      "</th></tr></thead><tbody>\n{}</tbody></table></div></details></section>\n",
                      figure_rows(simulator));
}

std::string list_of(const BenchReport& report, ReportVerdict verdict) {
    std::string text;
    for (const ReportRow& row : report.rows) {
        if (row.verdict != verdict || row.must.empty()) continue;
        text += fmt::format("<li><a href=\"#{}\">{}</a>: ", escaped(row.name),
                            escaped(full_title(row)));
        if (verdict == ReportVerdict::NotMeasured)
            text += escaped(row.why);
        else if (row.value)
            text += fmt::format("{}, must be {}", shown_row_value(row, row.value->median),
                                escaped(row.must));
        text += "</li>\n";
    }
    return text.empty() ? text : "<ul>" + text + "</ul>\n";
}

std::string summary(const BenchReport& report) {
    const ReportCount count = count_rows(report);
    std::string text = fmt::format(
        "<section class=\"summary\"><h2>Summary</h2>\n<p class=\"big\"><b>{} of {}</b> demands "
        "pass, {} of them reach their aim; {} missed, {} not measured.</p>\n",
        count.passed, count.demands, count.aims, count.missed, count.not_measured);
    if (report.quick)
        text +=
            "<p class=\"note\"><b>A quick run</b>: some of the rows, few repetitions. Its ratios "
            "are "
            "indications; <code>./run bench</code> measures all of them, seven times.</p>\n";
    if (report.load > 0.5)
        text += fmt::format(
            "<p class=\"note\">Other work ran on this machine when the run began ({:.1f} processes "
            "on average): all values are worse and less sure than on a quiet one.</p>\n",
            report.load);
    if (const std::string misses = list_of(report, ReportVerdict::Miss); !misses.empty())
        text += "<h3>Missed</h3>\n" + misses;
    if (const std::string open = list_of(report, ReportVerdict::NotMeasured); !open.empty())
        text += "<h3>Not measured</h3>\n" + open;
    return text + "</section>\n";
}

std::string facts(const BenchReport& report) {
    std::string text =
        "<section><h2 id=\"machine\">Machine, versions, settings</h2>\n<div class=\"wide\"><table>"
        "<caption>What was measured, and where</caption><tbody>\n";
    const auto line = [&](const std::string& name, const std::string& value) {
        text += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td></tr>\n",
                            escaped(name), escaped(value));
    };
    line("date", report.time);
    line("duration", shown_duration(report.seconds));
    line("processor",
         fmt::format("{} ({} processors)", report.processor.empty() ? "unknown" : report.processor,
                     report.processors));
    std::string cores;
    for (const std::size_t core : report.cores)
        cores += (cores.empty() ? "" : " and ") + std::to_string(core);
    line("cores used", cores);
    line("kernel", report.kernel);
    line("load at the start", fmt::format("{:.2f}", report.load));
    line("repetitions",
         fmt::format("{}, interleaved{}", report.repetitions, report.quick ? " (quick run)" : ""));
    for (const auto& [name, version] : report.versions)
        line(name, version.empty() ? "not installed" : version);
    if (report.settings.empty()) line("settings", "the defaults");
    for (const std::string& setting : report.settings)
        line("setting, not the default", setting);
    return text +
           "</tbody></table></div>\n<p>In each repetition ours and the peer are taken directly one "
           "after the other, and the ratio is formed within the repetition. The table shows the "
           "median of these ratios and the smallest and largest; each dot beside it is one "
           "repetition, the upright line what is demanded. Every single value is in the JSON "
           "file beside this page; <code>via report diff</code> compares two of them.</p>"
           "</section>\n";
}

/// One style for light and dark; a narrow screen gets each row as a card.
std::string page_style() {
    return fmt::format(
               ":root{{color-scheme:light dark;--ground:#ffffff;--ink:#1b1f24;--soft:#f4f6f8;"
               "--good:#0f6b32;--bad:#b3131b;--open:#5d6670;{}}}\n"
               "@media (prefers-color-scheme: dark){{:root{{--ground:#0f1319;--ink:#e6e9ed;"
               "--soft:#191f27;--good:#5ad07a;--bad:#ff8080;--open:#9aa4b0;{}}}}}\n",
               chart_colours(false), chart_colours(true)) +
           R"(body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--ground);color:var(--ink);
font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.4rem 0}h2{font-size:1.25rem;margin:2rem 0 .4rem}h3{font-size:1.05rem;margin:1rem 0 .3rem}
a{color:inherit}nav a{margin-right:1rem}
.summary{background:var(--soft);padding:.6rem 1rem;border-radius:.5rem}.summary h2{margin:.2rem 0}
.big{font-size:1.2rem;margin:.4rem 0}.note{border-left:.3rem solid var(--c1);padding-left:.7rem}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--faint);vertical-align:top}
th[scope=row],th:first-child,.verdict{text-align:left}th[scope=row]{font-weight:400;min-width:14rem}
small{display:block;color:var(--open)}
.pass{color:var(--good)}.miss{color:var(--bad);font-weight:700}.open{color:var(--open)}
td{white-space:nowrap}td.verdict,td small,td.words{white-space:normal}
td svg.strip{width:150px;height:20px}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:0;background:var(--soft);border-radius:.5rem;padding:.6rem;min-width:0}
figcaption{font-weight:600}figure svg{width:100%;height:auto}
.legend{list-style:none;margin:.2rem 0;padding:0;font-size:.85rem}
.legend li{display:inline-block;margin-right:1rem}.legend svg.swatch{width:34px;height:12px;margin-right:.3rem}
details summary{cursor:pointer;margin:.4rem 0}
footer{margin:2rem 0;color:var(--open);font-size:.85rem}
@media (max-width:45rem){
table.rows caption{display:block}table.rows thead{display:none}table.rows,table.rows tbody{display:block}
table.rows tr{display:block;padding:.5rem 0;border-bottom:2px solid var(--faint)}
table.rows th[scope=row]{display:block;font-weight:600;border:0;padding:.1rem 0}
table.rows td{display:flex;justify-content:space-between;border:0;padding:.1rem 0;text-align:right}
table.rows td:empty{display:none}
table.rows td::before{content:attr(data-label);color:var(--open);margin-right:1rem;text-align:left}
table.rows td.verdict{text-align:right}
}
)";
}

}  // namespace

ReportCount count_rows(const BenchReport& report) {
    ReportCount count;
    for (const ReportRow& row : report.rows) {
        if (row.must.empty()) continue;
        ++count.demands;
        switch (row.verdict) {
            case ReportVerdict::Aim:
                ++count.aims;
                ++count.passed;
                break;
            case ReportVerdict::Pass:
                ++count.passed;
                break;
            case ReportVerdict::Miss:
                ++count.missed;
                break;
            case ReportVerdict::Information:
            case ReportVerdict::NotMeasured:
                ++count.not_measured;
        }
    }
    return count;
}

std::string shown_side(const ReportSide& side, std::size_t stream_bytes) {
    if (!side.spread) return "–";
    const double value = side.spread->median;
    if (stream_bytes != 0)
        return show(value * static_cast<double>(stream_bytes), Quantity::BytesPerSecond);
    const auto quantity = quantity_of(side.unit);
    return quantity ? show(value, *quantity) : fmt::format("{:.4g} {}", value, side.unit);
}

std::string shown_row_value(const ReportRow& row, double value) {
    const ReportPair& pair = row.pair();
    if (pair.peer) return fmt::format("{:.2f}", value);
    const auto quantity = quantity_of(pair.ours.unit);
    return quantity ? show(value, *quantity) : fmt::format("{:.4g} {}", value, pair.ours.unit);
}

std::string report_page(const BenchReport& report) {
    std::string text = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
        "<title>Viaduct beside its peers, {0}</title>\n<style>{1}</style></head><body>\n"
        "<header><h1>Viaduct beside its peers</h1><p>{2}, {0}, {3}{4}</p></header>\n<nav>",
        escaped(report.time), page_style(),
        escaped(report.processor.empty() ? "unknown processor" : report.processor),
        shown_duration(report.seconds), report.quick ? ", quick run" : "");
    const std::vector<std::string> groups = groups_of(report);
    for (const std::string& group : groups)
        text += fmt::format("<a href=\"#group-{}\">{}</a>", escaped(group),
                            escaped(group_title(group)));
    if (report.links) text += "<a href=\"#links\">Links over time</a>";
    if (report.simulator) text += "<a href=\"#simulator\">Simulator against papers</a>";
    text += "<a href=\"#machine\">Machine</a></nav>\n" + summary(report);
    for (const std::string& group : groups)
        text += group_section(report, group);
    if (report.links) text += links_section(*report.links);
    if (report.simulator) text += simulator_section(*report.simulator);
    return text + facts(report) +
           "<footer>Written by <code>viabench</code>; again from the JSON file: <code>via report "
           "show</code>.</footer>\n</body></html>\n";
}

}  // namespace via::tool
