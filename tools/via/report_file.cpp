// SPDX-License-Identifier: BSD-3-Clause
#include "report_file.hpp"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "text_table.hpp"

namespace via::tool {
namespace {

using nlohmann::json;

constexpr std::uint64_t most_file_bytes = 64U << 20;
constexpr std::size_t most_entries = 20'000;  ///< of any list
constexpr std::size_t most_letters = 4'000;   ///< of any text; what is longer is cut

struct VerdictWord {
    ReportVerdict verdict;
    std::string_view word;
};
constexpr std::array<VerdictWord, 5> verdict_words{{{ReportVerdict::Aim, "pass, aim"},
                                                    {ReportVerdict::Pass, "pass"},
                                                    {ReportVerdict::Miss, "MISS"},
                                                    {ReportVerdict::Information, "information"},
                                                    {ReportVerdict::NotMeasured, "not measured"}}};

/// Takes members out of JSON; the first that is not as it should be is what went wrong. Answers
/// after that mean nothing.
class ReportReader {
  public:
    [[nodiscard]] const std::string& problem() const { return problem_; }
    void complain(const std::string& place, std::string_view what) {
        if (problem_.empty()) problem_ = fmt::format("{} {}", place, what);
    }

    /// The member, or nothing if it is absent or null.
    [[nodiscard]] const json* find(const json& from, const char* name) const {
        if (!from.is_object()) return nullptr;
        const auto found = from.find(name);
        return found == from.end() || found->is_null() ? nullptr : &*found;
    }
    const json& object(const json& from, const char* name, const std::string& place) {
        static const json none = json::object();
        const json* value = find(from, name);
        if (value != nullptr && value->is_object()) return *value;
        complain(member(place, name), value == nullptr ? "is missing" : "is no object");
        return none;
    }
    const json& list(const json& from, const char* name, const std::string& place) {
        static const json none = json::array();
        const json* value = find(from, name);
        if (value != nullptr && value->is_array() && value->size() <= most_entries) return *value;
        complain(member(place, name), value == nullptr    ? "is missing"
                                      : value->is_array() ? "is too long"
                                                          : "is no list");
        return none;
    }
    std::string text(const json& value, const std::string& place) {
        if (!value.is_string()) {
            complain(place, "is no text");
            return {};
        }
        const auto& all = value.get_ref<const std::string&>();
        return printable(std::string_view(all).substr(0, most_letters));
    }
    std::string text(const json& from, const char* name, const std::string& place) {
        const json* value = find(from, name);
        if (value == nullptr) {
            complain(member(place, name), "is missing");
            return {};
        }
        return text(*value, member(place, name));
    }
    std::string optional_text(const json& from, const char* name, const std::string& place) {
        const json* value = find(from, name);
        return value == nullptr ? std::string() : text(*value, member(place, name));
    }
    double number(const json& value, const std::string& place) {
        if (value.is_number()) {
            const double answer = value.get<double>();
            if (std::isfinite(answer)) return answer;
        }
        complain(place, "is no number");
        return 0;
    }
    double number(const json& from, const char* name, const std::string& place) {
        const json* value = find(from, name);
        if (value != nullptr) return number(*value, member(place, name));
        complain(member(place, name), "is missing");
        return 0;
    }
    std::optional<double> optional_number(const json& from, const char* name,
                                          const std::string& place) {
        const json* value = find(from, name);
        if (value == nullptr) return std::nullopt;
        return number(*value, member(place, name));
    }
    std::size_t count(const json& from, const char* name, const std::string& place) {
        constexpr double most = 1e15;
        const double value = number(from, name, place);
        if (value >= 0 && value <= most && value == std::floor(value))
            return static_cast<std::size_t>(value);
        complain(member(place, name), "is no count");
        return 0;
    }
    std::size_t optional_count(const json& from, const char* name, const std::string& place) {
        return find(from, name) == nullptr ? 0 : count(from, name, place);
    }
    bool flag(const json& from, const char* name, const std::string& place) {
        const json* value = find(from, name);
        if (value != nullptr && value->is_boolean()) return value->get<bool>();
        if (value != nullptr) complain(member(place, name), "is neither true nor false");
        return false;
    }
    std::vector<double> numbers(const json& from, const std::string& place, bool holes) {
        std::vector<double> values;
        if (!from.is_array() || from.size() > most_entries) {
            complain(place, from.is_array() ? "is too long" : "is no list");
            return values;
        }
        for (std::size_t index = 0; index < from.size(); ++index) {
            values.push_back(holes && from[index].is_null()
                                 ? std::numeric_limits<double>::quiet_NaN()
                                 : number(from[index], entry(place, index)));
        }
        return values;
    }

    [[nodiscard]] static std::string member(const std::string& place, const char* name) {
        return place.empty() ? name : place + "." + name;
    }
    [[nodiscard]] static std::string entry(const std::string& place, std::size_t index) {
        return fmt::format("{}[{}]", place, index);
    }

  private:
    std::string problem_;
};

std::optional<ReportSpread> read_spread(ReportReader& reader, const json& from, const char* name,
                                        const std::string& above) {
    if (reader.find(from, name) == nullptr) return std::nullopt;
    const json& value = reader.object(from, name, above);
    const std::string place = ReportReader::member(above, name);
    ReportSpread spread{.count = reader.count(value, "count", place),
                        .median = reader.number(value, "median", place),
                        .minimum = reader.number(value, "minimum", place),
                        .lower_quartile = reader.number(value, "lower_quartile", place),
                        .upper_quartile = reader.number(value, "upper_quartile", place),
                        .maximum = reader.number(value, "maximum", place)};
    if (spread.count == 0) reader.complain(place, "is a spread of no values");
    // What was interpolated may be wrong in its last digit.
    const double rounding = 1e-9 * std::max(std::abs(spread.minimum), std::abs(spread.maximum));
    if (!(spread.minimum <= spread.lower_quartile + rounding &&
          spread.lower_quartile <= spread.median + rounding &&
          spread.median <= spread.upper_quartile + rounding &&
          spread.upper_quartile <= spread.maximum + rounding))
        reader.complain(place, "is not in order from the minimum to the maximum");
    return spread;
}

ReportSide read_side(ReportReader& reader, const json& value, const std::string& place) {
    return {reader.text(value, "label", place), reader.text(value, "unit", place),
            reader.numbers(reader.list(value, "values", place),
                           ReportReader::member(place, "values"), true),
            read_spread(reader, value, "spread", place)};
}

ReportPair read_pair(ReportReader& reader, const json& value, const std::string& place) {
    ReportPair pair;
    pair.name = reader.text(value, "name", place);
    pair.title = reader.text(value, "title", place);
    pair.ours =
        read_side(reader, reader.object(value, "ours", place), ReportReader::member(place, "ours"));
    if (reader.find(value, "peer") != nullptr)
        pair.peer = read_side(reader, reader.object(value, "peer", place),
                              ReportReader::member(place, "peer"));
    pair.ratio = read_spread(reader, value, "ratio", place);
    const json& failures = reader.list(value, "failures", place);
    for (std::size_t index = 0; index < failures.size(); ++index)
        pair.failures.push_back(reader.text(
            failures[index], ReportReader::entry(ReportReader::member(place, "failures"), index)));
    return pair;
}

ReportRow read_row(ReportReader& reader, const json& value, const std::string& place) {
    ReportRow row;
    row.name = reader.text(value, "name", place);
    row.group = reader.text(value, "group", place);
    row.title = reader.text(value, "title", place);
    row.must = reader.optional_text(value, "must_text", place);
    row.aim = reader.optional_text(value, "aim_text", place);
    row.limit = reader.optional_number(value, "must", place);
    row.why = reader.optional_text(value, "why", place);
    row.value = read_spread(reader, value, "value", place);
    row.deciding = reader.optional_count(value, "deciding", place);
    row.ahead = reader.optional_count(value, "ahead", place);
    row.stream_bytes = reader.optional_count(value, "stream_bytes", place);
    row.advantage = reader.flag(value, "advantage", place);
    const std::string better = reader.text(value, "better", place);
    if (better == "less")
        row.better = Better::Less;
    else if (better == "more")
        row.better = Better::More;
    else if (better == "neither")
        row.better = Better::Neither;
    else
        reader.complain(ReportReader::member(place, "better"),
                        "is none of \"less\", \"more\" and \"neither\"");
    const std::string verdict = reader.text(value, "verdict", place);
    bool known = false;
    for (const VerdictWord& each : verdict_words) {
        if (each.word != verdict) continue;
        row.verdict = each.verdict;
        known = true;
    }
    if (!known) reader.complain(ReportReader::member(place, "verdict"), "is no verdict");
    if (row.verdict != ReportVerdict::NotMeasured && !row.value)
        reader.complain(ReportReader::member(place, "value"), "is missing");
    const json& pairs = reader.list(value, "pairs", place);
    for (std::size_t index = 0; index < pairs.size(); ++index)
        row.pairs.push_back(
            read_pair(reader, pairs[index],
                      ReportReader::entry(ReportReader::member(place, "pairs"), index)));
    if (row.deciding >= row.pairs.size())
        reader.complain(place, "has no pair of values that decides");
    return row;
}

ReportCurve read_curve(ReportReader& reader, const json& value, const std::string& place) {
    ReportCurve curve{reader.text(value, "label", place),
                      reader.text(value, "group", place),
                      reader.text(value, "unit", place),
                      reader.optional_text(value, "problem", place),
                      {}};
    const json& points = reader.list(value, "points", place);
    for (std::size_t index = 0; index < points.size(); ++index) {
        const std::string point = ReportReader::entry(ReportReader::member(place, "points"), index);
        curve.points.push_back({reader.number(points[index], "bytes", point),
                                reader.number(points[index], "median", point)});
    }
    return curve;
}

ReportLinks read_links(ReportReader& reader, const json& value) {
    const std::string place = "links";
    ReportLinks links;
    links.problem = reader.optional_text(value, "problem", place);
    if (!links.problem.empty()) return links;
    links.seconds = reader.number(value, "seconds", place);
    links.interval = reader.number(value, "interval_s", place);
    links.curves.push_back(
        {"what the receiver confirmed",
         reader.numbers(reader.list(value, "mb_per_s", place), "links.mb_per_s", false)});
    const json& each = reader.list(value, "links", place);
    for (std::size_t index = 0; index < each.size(); ++index)
        links.curves.push_back(
            {fmt::format("sent by link {}", index),
             reader.numbers(each[index], ReportReader::entry("links.links", index), false)});
    const json& events = reader.list(value, "events", place);
    for (std::size_t index = 0; index < events.size(); ++index) {
        const std::string event = ReportReader::entry("links.events", index);
        links.marks.push_back({reader.number(events[index], "at_s", event),
                               "link 1 " + reader.text(events[index], "name", event)});
    }
    const json& stall = reader.object(value, "longest_stall", place);
    links.stall_ms = reader.number(stall, "ms", "links.longest_stall");
    links.stall_at = reader.number(stall, "at_s", "links.longest_stall");
    if (!(links.interval > 0)) reader.complain("links.interval_s", "is not above 0");
    return links;
}

ReportFigure read_figure(ReportReader& reader, const json& value, const std::string& place) {
    ReportFigure figure;
    figure.paper = reader.text(value, "paper", place);
    figure.what = reader.text(value, "figure", place);
    figure.unit = reader.text(value, "unit", place);
    figure.role = reader.text(value, "role", place);
    figure.kind = reader.text(value, "kind", place);
    figure.low = reader.optional_number(value, "low", place);
    figure.high = reader.optional_number(value, "high", place);
    figure.model = reader.number(value, "model", place);
    figure.error_percent = reader.optional_number(value, "error_percent", place);
    figure.tolerance_percent =
        reader.optional_number(value, "tolerance_percent", place).value_or(0);
    if (reader.find(value, "met") != nullptr) figure.met = reader.flag(value, "met", place);
    return figure;
}

ReportChart read_chart(ReportReader& reader, const json& value, const std::string& place) {
    ReportChart chart;
    chart.title = reader.text(value, "title", place);
    chart.unit = reader.text(value, "unit", place);
    for (const auto& [name, points] : reader.object(value, "curves", place).items()) {
        const std::string curve = fmt::format("{}.curves.{}", place, printable(name));
        if (!points.is_array() || points.size() > most_entries) {
            reader.complain(curve, "is no list");
            continue;
        }
        auto& line = chart.curves[printable(name)];
        for (std::size_t index = 0; index < points.size(); ++index) {
            const std::string point = ReportReader::entry(curve, index);
            const auto place_of = reader.numbers(points[index], point, false);
            if (place_of.size() == 2)
                line.emplace_back(place_of[0], place_of[1]);
            else
                reader.complain(point, "is no pair of numbers");
        }
    }
    return chart;
}

ReportSimulator read_simulator(ReportReader& reader, const json& value) {
    ReportSimulator simulator;
    simulator.problem = reader.optional_text(value, "problem", "simulator");
    if (!simulator.problem.empty()) return simulator;
    const json& figures = reader.list(value, "figures", "simulator");
    for (std::size_t index = 0; index < figures.size(); ++index)
        simulator.figures.push_back(
            read_figure(reader, figures[index], ReportReader::entry("simulator.figures", index)));
    // Bars, which have no curves, are for the program's own pictures.
    for (const auto& [name, chart] : reader.object(value, "charts", "simulator").items()) {
        if (reader.find(chart, "curves") != nullptr)
            simulator.charts.push_back(
                read_chart(reader, chart, "simulator.charts." + printable(name)));
    }
    return simulator;
}

void read_facts(ReportReader& reader, const json& document, BenchReport& report) {
    report.quick = reader.flag(document, "quick", "");
    report.time = reader.text(document, "time", "");
    report.seconds = reader.number(document, "seconds", "");
    const json& machine = reader.object(document, "machine", "");
    report.processor = reader.text(machine, "processor", "machine");
    report.kernel = reader.text(machine, "kernel", "machine");
    report.processors = reader.count(machine, "processors", "machine");
    report.load = reader.number(machine, "load_at_start", "machine");
    for (const double core : reader.numbers(reader.list(document, "cores", ""), "cores", false))
        report.cores.push_back(core >= 0 && core < 1e6 ? static_cast<std::size_t>(core) : 0);
    report.repetitions = reader.count(document, "repetitions", "");
    const json& settings = reader.list(document, "settings", "");
    for (std::size_t index = 0; index < settings.size(); ++index)
        report.settings.push_back(
            reader.text(settings[index], ReportReader::entry("settings", index)));
    for (const auto& [name, version] : reader.object(document, "versions", "").items())
        report.versions[printable(name)] = reader.text(version, "versions." + printable(name));
}

}  // namespace

std::string_view verdict_name(ReportVerdict verdict) {
    for (const VerdictWord& each : verdict_words)
        if (each.verdict == verdict) return each.word;
    return "";
}

base::Result<BenchReport> parse_report(const json& document) {
    ReportReader reader;
    if (!document.is_object())
        return {base::Code::ProtocolViolation, "this is no object but another kind of JSON"};
    const json* schema = reader.find(document, "schema");
    if (schema == nullptr || !schema->is_number_integer())
        return {base::Code::ProtocolViolation,
                "it has no \"schema\": this is not what ./run bench writes (bench.json)"};
    if (*schema != report_schema)
        return {base::Code::ProtocolViolation,
                fmt::format("its schema is {}, and this program reads {}: take the program of that "
                            "version, or measure again",
                            schema->dump(), report_schema)};
    BenchReport report;
    read_facts(reader, document, report);
    const json& rows = reader.list(document, "rows", "");
    for (std::size_t index = 0; index < rows.size() && reader.problem().empty(); ++index)
        report.rows.push_back(read_row(reader, rows[index], ReportReader::entry("rows", index)));
    const json& curves = reader.list(document, "curves", "");
    for (std::size_t index = 0; index < curves.size() && reader.problem().empty(); ++index)
        report.curves.push_back(
            read_curve(reader, curves[index], ReportReader::entry("curves", index)));
    if (reader.find(document, "links") != nullptr)
        report.links = read_links(reader, reader.object(document, "links", ""));
    if (reader.find(document, "simulator") != nullptr)
        report.simulator = read_simulator(reader, reader.object(document, "simulator", ""));
    if (!reader.problem().empty()) return {base::Code::ProtocolViolation, reader.problem()};
    return report;
}

base::Result<BenchReport> parse_report_text(std::string_view text) {
    // The library says where it stumbled only by an exception.
    try {
        return parse_report(json::parse(text));
    } catch (const json::exception& error) {
        return {base::Code::ProtocolViolation,
                fmt::format("this is no JSON: {}", printable(error.what()))};
    }
}

base::Result<BenchReport> read_report(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return base::system_error(errno, "reading " + path);
    std::string text;
    std::array<char, 65536> piece{};
    while (file.read(piece.data(), piece.size()) || file.gcount() > 0) {
        text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
        if (text.size() > most_file_bytes)
            return {base::Code::ProtocolViolation,
                    fmt::format("{}: it has more than {} MB, as no results have", path,
                                most_file_bytes >> 20)};
    }
    // A folder can be opened and not read.
    if (file.bad()) return base::system_error(errno, "reading " + path);
    auto report = parse_report_text(text);
    if (!report) return {report.error().code, path + ": " + report.error().sentence};
    return report;
}

}  // namespace via::tool
