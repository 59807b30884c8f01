// SPDX-License-Identifier: BSD-3-Clause
#include "report_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report_page.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

/// Fewer have no quartiles to speak of.
constexpr std::size_t enough_for_quartiles = 5;
/// More than this is other work on the machine.
constexpr double quiet_load = 0.5;

double change_in_percent(double before, double after) {
    return before == 0 ? 0 : (after - before) / std::abs(before) * 100;
}

/// What a row's value is: two rows of one name may have been different things.
std::string value_kind(const ReportRow& row) {
    const ReportPair& pair = row.pair();
    return fmt::format("{}{}{}", pair.ours.unit, pair.peer ? " beside a peer" : "",
                       row.advantage ? ", advantage" : "");
}

void warn_about_machine(const BenchReport& before, const BenchReport& after,
                        std::vector<std::string>& warnings) {
    const auto differ = [&](std::string_view what, const std::string& one,
                            const std::string& other) {
        if (one != other)
            warnings.push_back(fmt::format("{}: \"{}\" before, \"{}\" now", what, one, other));
    };
    const auto joined = [](const auto& entries) {
        return fmt::format("{}", fmt::join(entries, " "));
    };
    differ("another processor", before.processor, after.processor);
    differ("another number of processors", std::to_string(before.processors),
           std::to_string(after.processors));
    differ("another kernel", before.kernel, after.kernel);
    differ("other cores", joined(before.cores), joined(after.cores));
    differ("other settings", joined(before.settings), joined(after.settings));
    std::set<std::string> names;
    for (const auto& [name, version] : before.versions)
        names.insert(name);
    for (const auto& [name, version] : after.versions)
        names.insert(name);
    const auto version_of = [](const BenchReport& report, const std::string& name) {
        const auto found = report.versions.find(name);
        return found == report.versions.end() ? std::string() : found->second;
    };
    for (const std::string& name : names)
        differ("another version of " + name, version_of(before, name), version_of(after, name));
}

std::string shown_change(const RowChange& row, double percent) {
    return row.kind == ChangeKind::Incomparable ? "" : fmt::format("{:+.1f} %", percent);
}

std::string shown_value(const ReportRow& row) {
    if (!row.value) return "–";
    return fmt::format("{} ({}–{})", shown_row_value(row, row.value->median),
                       shown_row_value(row, row.value->minimum),
                       shown_row_value(row, row.value->maximum));
}

std::string row_remark(const RowChange& row) {
    if (row.kind == ChangeKind::Incomparable) return row.why;
    if (row.before->verdict == row.after->verdict) return {};
    return fmt::format("{} → {}", verdict_name(row.before->verdict),
                       verdict_name(row.after->verdict));
}

nlohmann::json value_json(const ReportRow& row) {
    if (!row.value) return nullptr;
    return {{"median", row.value->median},
            {"minimum", row.value->minimum},
            {"lower_quartile", row.value->lower_quartile},
            {"upper_quartile", row.value->upper_quartile},
            {"maximum", row.value->maximum},
            {"count", row.value->count},
            {"verdict", verdict_name(row.verdict)}};
}

nlohmann::json names_json(const std::vector<const ReportRow*>& rows) {
    auto names = nlohmann::json::array();
    for (const ReportRow* row : rows)
        names.push_back(row->name);
    return names;
}

}  // namespace

std::string_view change_name(ChangeKind kind) {
    switch (kind) {
        case ChangeKind::Slower:
            return "slower";
        case ChangeKind::Faster:
            return "faster";
        case ChangeKind::Same:
            return "same";
        case ChangeKind::Incomparable:
            break;
    }
    return "not comparable";
}

std::size_t ReportDiff::count(ChangeKind kind) const {
    return static_cast<std::size_t>(std::count_if(
        rows.begin(), rows.end(), [kind](const RowChange& row) { return row.kind == kind; }));
}

double width_of(const ReportSpread& spread) {
    if (spread.count < enough_for_quartiles) return spread.maximum - spread.minimum;
    return spread.upper_quartile - spread.lower_quartile;
}

RowChange compare_rows(const ReportRow& before, const ReportRow& after, double tolerance_percent) {
    RowChange change;
    change.before = &before;
    change.after = &after;
    if (!before.value || !after.value) {
        const bool first = !before.value;
        change.why = fmt::format("not measured {}: {}", first ? "before" : "now",
                                 first ? before.why : after.why);
        return change;
    }
    if (value_kind(before) != value_kind(after)) {
        change.why = fmt::format("another thing was measured: {} before, {} now",
                                 value_kind(before), value_kind(after));
        return change;
    }
    change.kind = ChangeKind::Same;
    change.change_percent = change_in_percent(before.value->median, after.value->median);
    if (before.pair().ours.spread && after.pair().ours.spread)
        change.ours_percent =
            change_in_percent(before.pair().ours.spread->median, after.pair().ours.spread->median);
    const double difference = after.value->median - before.value->median;
    const double noise = std::max(width_of(*before.value), width_of(*after.value));
    const double tolerated = tolerance_percent / 100 * std::abs(before.value->median);
    // A share that must lie in the middle has no better side.
    if (after.better == Better::Neither || !(std::abs(difference) > noise) ||
        !(std::abs(difference) > tolerated))
        return change;
    const bool worse = (difference > 0) == (after.better == Better::Less);
    change.kind = worse ? ChangeKind::Slower : ChangeKind::Faster;
    return change;
}

ReportDiff compare_reports(const BenchReport& before, const BenchReport& after,
                           double tolerance_percent) {
    ReportDiff diff;
    warn_about_machine(before, after, diff.warnings);
    if (before.quick != after.quick)
        diff.warnings.push_back(fmt::format("the {} run was a quick one: its values are less sure",
                                            before.quick ? "first" : "second"));
    for (const BenchReport* report : {&before, &after})
        if (report->load > quiet_load)
            diff.warnings.push_back(
                fmt::format("other work ran when the {} run began (load {:.1f})",
                            report == &before ? "first" : "second", report->load));
    std::map<std::string_view, const ReportRow*> old;
    for (const ReportRow& row : before.rows)
        old.emplace(row.name, &row);
    std::set<std::string_view> both;
    for (const ReportRow& row : after.rows) {
        const auto found = old.find(row.name);
        if (found == old.end()) {
            diff.only_after.push_back(&row);
            continue;
        }
        both.insert(row.name);
        diff.rows.push_back(compare_rows(*found->second, row, tolerance_percent));
    }
    for (const ReportRow& row : before.rows)
        if (!both.contains(row.name)) diff.only_before.push_back(&row);
    return diff;
}

std::string draw_diff(const ReportDiff& diff, bool all) {
    std::string text;
    for (const std::string& warning : diff.warnings)
        text += "note: " + warning + "\n";
    if (!diff.warnings.empty()) text += "\n";
    TextTable table;
    table.add_column("row", Align::Left);
    table.add_column("before (min–max)");
    table.add_column("now (min–max)");
    table.add_column("change");
    table.add_column("ours");
    table.add_column("", Align::Left);
    table.add_column("", Align::Left);
    bool any = false;
    for (const ChangeKind kind :
         {ChangeKind::Slower, ChangeKind::Faster, ChangeKind::Incomparable, ChangeKind::Same}) {
        std::vector<const RowChange*> rows;
        for (const RowChange& row : diff.rows)
            if (row.kind == kind) rows.push_back(&row);
        if (kind == ChangeKind::Same && !all) continue;
        // The largest change first; equal ones stay in the order of the rows, which lie in a
        // vector.
        std::sort(rows.begin(), rows.end(), [](const RowChange* one, const RowChange* other) {
            const double first = std::abs(one->change_percent);
            const double second = std::abs(other->change_percent);
            return first != second ? first > second : std::less<>{}(one, other);
        });
        for (const RowChange* row : rows) {
            table.add_row({row->after->name, shown_value(*row->before), shown_value(*row->after),
                           shown_change(*row, row->change_percent),
                           shown_change(*row, row->ours_percent), std::string(change_name(kind)),
                           row_remark(*row)});
            any = true;
        }
    }
    if (any) text += table.draw() + "\n";
    const auto list = [&](const char* words, const std::vector<const ReportRow*>& rows) {
        if (rows.empty()) return;
        text += words;
        for (std::size_t index = 0; index < rows.size(); ++index)
            text += (index == 0 ? " " : ", ") + rows[index]->name;
        text += "\n";
    };
    list("only before:", diff.only_before);
    list("only now:", diff.only_after);
    return text + fmt::format("{} slower, {} faster, {} the same, {} not comparable\n",
                              diff.count(ChangeKind::Slower), diff.count(ChangeKind::Faster),
                              diff.count(ChangeKind::Same), diff.count(ChangeKind::Incomparable));
}

nlohmann::json to_json(const ReportDiff& diff) {
    auto rows = nlohmann::json::array();
    for (const RowChange& row : diff.rows) {
        nlohmann::json one{{"name", row.after->name},
                           {"title", row.after->title},
                           {"judgement", change_name(row.kind)},
                           {"before", value_json(*row.before)},
                           {"after", value_json(*row.after)}};
        if (row.kind == ChangeKind::Incomparable) {
            one["why"] = row.why;
        } else {
            one["change_percent"] = row.change_percent;
            one["ours_change_percent"] = row.ours_percent;
        }
        rows.push_back(std::move(one));
    }
    return {{"warnings", diff.warnings},
            {"rows", std::move(rows)},
            {"only_before", names_json(diff.only_before)},
            {"only_after", names_json(diff.only_after)},
            {"slower", diff.count(ChangeKind::Slower)},
            {"faster", diff.count(ChangeKind::Faster)},
            {"same", diff.count(ChangeKind::Same)},
            {"not_comparable", diff.count(ChangeKind::Incomparable)}};
}

}  // namespace via::tool
