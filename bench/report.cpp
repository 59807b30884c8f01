// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "progress.hpp"
#include "via/report_file.hpp"
#include "via/text_table.hpp"

namespace via::bench {

namespace {

using nlohmann::json;
using tool::Align;
using tool::TextTable;

std::string show_limit(const Row& row, double limit) {
    const std::string sign = row.relation == Relation::AtMost ? "≤ " : "≥ ";
    return sign + fmt::format("{:g}", limit);
}

std::string shown_must(const Row& row) {
    if (!row.must_text.empty() || !row.must) return row.must_text;
    return show_limit(row, *row.must);
}

std::string shown_median(const std::vector<double>& values, Quantity quantity,
                         std::size_t stream_bytes = 0) {
    const Spread spread = spread_of(values);
    if (spread.count == 0) return "–";
    if (stream_bytes == 0) return show(spread.median, quantity);
    return show(spread.median * static_cast<double>(stream_bytes), Quantity::BytesPerSecond);
}

/// Ratios have no unit; a value without a peer has its own.
std::string shown(double value, const Pair& pair) {
    if (pair.peer) return fmt::format("{:.2f}", value);
    return show(value, pair.ours.quantity);
}

void add_table_row(TextTable& table, const Row& row, const Plan& plan) {
    const Judgement judgement = judge(row, plan.pairs);
    const Pair& pair = plan.pairs[judgement.deciding];
    std::string title = row.title;
    if (row.relation == Relation::Ahead && judgement.verdict != Verdict::NotMeasured) {
        title += fmt::format(": {} of {}, worst {}", judgement.ahead, row.pairs.size(), pair.title);
    }
    const std::string peer =
        pair.peer ? shown_median(pair.peer_values, pair.peer->quantity, row.stream_bytes)
                  : std::string();
    const std::string must = shown_must(row);
    const std::string aim = row.aim ? show_limit(row, *row.aim) : "";
    const std::string ours = shown_median(pair.our_values, pair.ours.quantity, row.stream_bytes);
    if (judgement.verdict == Verdict::NotMeasured) {
        table.add_row({title, ours, peer, "–", "–", must, aim, "not measured: " + judgement.why});
        return;
    }
    const std::string spread =
        pair.peer ? fmt::format("{:.2f}–{:.2f}", judgement.value.minimum, judgement.value.maximum)
                  : fmt::format("{:.3g}–{:.3g}", judgement.value.minimum, judgement.value.maximum);
    table.add_row({title, ours, peer, shown(judgement.value.median, pair), spread, must, aim,
                   std::string(verdict_name(judgement.verdict))});
}

TextTable new_table(const std::string& first_column) {
    TextTable table;
    table.add_column(first_column, Align::Left);
    for (const char* title : {"ours", "peer", "ratio", "min–max", "must", "aim"}) {
        table.add_column(title);
    }
    table.add_column("", Align::Left);
    return table;
}

const char* group_title(Group group) {
    switch (group) {
        case Group::InHost:
            return "measure, two processes on two cores";
        case Group::BetweenHosts:
            return "measure, two hosts of a lab";
        case Group::Mpi:
            return "measure, MPI programs";
        case Group::Simulator:
            return "measure, simulator";
    }
    return "measure";
}

/// Values that are not finite have no JSON.
json numbers(const std::vector<double>& values) {
    json list = json::array();
    for (const double value : values)
        list.push_back(std::isfinite(value) ? json(value) : json());
    return list;
}

json spread_json(const Spread& spread) {
    if (spread.count == 0) return nullptr;
    return {{"median", spread.median},
            {"minimum", spread.minimum},
            {"lower_quartile", spread.lower_quartile},
            {"upper_quartile", spread.upper_quartile},
            {"maximum", spread.maximum},
            {"count", spread.count}};
}

json side_json(const Probe& probe, const std::vector<double>& values, double seconds) {
    return {{"label", probe.label},
            {"unit", unit_of(probe.quantity)},
            {"values", numbers(values)},
            {"spread", spread_json(spread_of(values))},
            {"seconds", seconds}};
}

std::string_view relation_name(Relation relation) {
    switch (relation) {
        case Relation::AtMost:
            return "at most";
        case Relation::AtLeast:
            return "at least";
        case Relation::Between:
            return "between";
        case Relation::Ahead:
            return "ahead at every size";
    }
    return "";
}

/// Of the row's value. What it demands does not say it: rows for information demand nothing.
std::string_view better_name(const Row& row, const Pair& pair) {
    if (row.relation == Relation::Between) return "neither";
    if (row.relation == Relation::Ahead) return "more";
    return less_is_better(pair.ours.quantity) ? "less" : "more";
}

/// The unit belongs to a limit of a value that has no peer.
std::string with_unit(std::string limit, const Row& row, const Pair& pair) {
    if (limit.empty() || pair.peer || row.relation == Relation::Between || !row.must_text.empty())
        return limit;
    return limit + " " + std::string(unit_of(pair.ours.quantity));
}

json row_json(const Row& row, const Plan& plan) {
    const Judgement judgement = judge(row, plan.pairs);
    const Pair& deciding = plan.pairs[judgement.deciding];
    const auto place = std::find(row.pairs.begin(), row.pairs.end(), judgement.deciding);
    json out{{"name", row.name},
             {"group", group_name(row.group)},
             {"title", row.title},
             {"relation", relation_name(row.relation)},
             {"better", better_name(row, deciding)},
             {"must", row.must ? json(*row.must) : json()},
             {"must_text", with_unit(shown_must(row), row, deciding)},
             {"aim", row.aim ? json(*row.aim) : json()},
             {"aim_text", with_unit(row.aim ? show_limit(row, *row.aim) : "", row, deciding)},
             {"deciding", place - row.pairs.begin()},
             {"verdict", verdict_name(judgement.verdict)},
             {"value", spread_json(judgement.value)}};
    if (row.relation == Relation::Between) out["most"] = row.most;
    if (row.relation == Relation::Ahead) {
        out["advantage"] = true;
        out["ahead"] = judgement.ahead;
    }
    if (row.stream_bytes != 0) out["stream_bytes"] = row.stream_bytes;
    if (judgement.verdict == Verdict::Information) out["verdict"] = "information";
    if (!judgement.why.empty()) out["why"] = judgement.why;
    for (const std::size_t index : row.pairs) {
        const Pair& pair = plan.pairs[index];
        json entry{{"name", pair.name},
                   {"title", pair.title},
                   {"ours", side_json(pair.ours, pair.our_values, pair.our_seconds)},
                   {"failures", pair.failures}};
        if (pair.peer) {
            entry["peer"] = side_json(*pair.peer, pair.peer_values, pair.peer_seconds);
            entry["peer"]["label"] = pair.peer_label();
            entry["ratio"] = spread_json(spread_of(pair.comparison()));
        }
        out["pairs"].push_back(std::move(entry));
    }
    return out;
}

}  // namespace

std::string table_text(const Plan& plan, const RunFacts& facts) {
    std::string text = fmt::format(
        "{} ({} processors), {}, cores {} and {}\n{} repetitions, interleaved, {}; {}{}\n",
        facts.machine.processor.empty() ? "unknown processor" : facts.machine.processor,
        facts.machine.processors, facts.machine.kernel, facts.cores.first, facts.cores.second,
        facts.repetitions.pairs, show_seconds(facts.seconds), facts.machine.time,
        facts.quick ? "; a quick run: ratios are indications" : "");
    for (const auto& [name, version] : facts.versions) {
        if (!version.empty()) text += fmt::format("{}: {}\n", name, version);
    }
    for (const auto& setting : facts.settings)
        text += "not the default: " + setting + "\n";
    text += "\n";

    std::map<Group, TextTable> laws;
    TextTable sizes = new_table("each size, ours beside UCX (ratio: advantage)");
    TextTable information = new_table("for information");
    bool has_sizes = false;
    bool has_information = false;
    for (const Row& row : plan.rows) {
        if (!row.must) {
            add_table_row(information, row, plan);
            has_information = true;
            continue;
        }
        TextTable& law =
            laws.try_emplace(row.group, new_table(group_title(row.group))).first->second;
        add_table_row(law, row, plan);
        if (row.relation != Relation::Ahead) continue;
        for (const std::size_t index : row.pairs) {
            const Row single{
                "", plan.pairs[index].title, Relation::Ahead, 1, std::nullopt, "> 1", {index}};
            const Judgement judgement = judge(single, plan.pairs);
            const Pair& pair = plan.pairs[index];
            const bool measured = judgement.verdict != Verdict::NotMeasured;
            sizes.add_row({pair.title, shown_median(pair.our_values, pair.ours.quantity),
                           shown_median(pair.peer_values, pair.ours.quantity),
                           measured ? fmt::format("{:.2f}", judgement.value.median) : "–",
                           measured ? fmt::format("{:.2f}–{:.2f}", judgement.value.minimum,
                                                  judgement.value.maximum)
                                    : "–",
                           "> 1", "",
                           measured ? std::string(verdict_name(judgement.verdict))
                                    : "not measured: " + judgement.why});
            has_sizes = true;
        }
    }
    for (const auto& [group, law] : laws)
        text += law.draw() + "\n";
    if (has_sizes) text += sizes.draw() + "\n";
    if (has_information) text += information.draw() + "\n";
    return text;
}

json results_json(const Plan& plan, const std::vector<CurveResult>& curves, const RunFacts& facts) {
    json out{{"schema", tool::report_schema},
             {"quick", facts.quick},
             {"machine",
              {{"processor", facts.machine.processor},
               {"processors", facts.machine.processors},
               {"kernel", facts.machine.kernel},
               {"load_at_start", facts.machine.load}}},
             {"time", facts.machine.time},
             {"seconds", facts.seconds},
             {"cores", {facts.cores.first, facts.cores.second}},
             {"repetitions", facts.repetitions.pairs},
             {"settings", facts.settings},
             {"versions", json::object()},
             {"rows", json::array()},
             {"curves", json::array()}};
    for (const auto& [name, version] : facts.versions)
        out["versions"][name] = version;
    for (const Row& row : plan.rows)
        out["rows"].push_back(row_json(row, plan));
    for (const CurveResult& curve : curves) {
        json entry{{"label", curve.label},
                   {"group", group_name(curve.group)},
                   {"unit", unit_of(curve.quantity)},
                   {"points", json::array()}};
        if (!curve.problem.empty()) entry["problem"] = curve.problem;
        for (const CurvePoint& point : curve.points) {
            entry["points"].push_back({{"bytes", point.bytes},
                                       {"median", spread_of(point.values).median},
                                       {"values", numbers(point.values)}});
        }
        out["curves"].push_back(std::move(entry));
    }
    return out;
}

}  // namespace via::bench
