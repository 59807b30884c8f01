// SPDX-License-Identifier: BSD-3-Clause
#include "tune/tune_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "size_list.hpp"
#include "statistics.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

std::string_view to_text(Verdict verdict) {
    switch (verdict) {
        case Verdict::Better:
            return "better";
        case Verdict::Same:
            return "same";
        case Verdict::Worse:
            return "worse";
    }
    return "?";
}

double rate(std::uint64_t bytes, const PointCosts& costs) {
    const double each = median(costs.stream_us);
    return each > 0 ? static_cast<double>(bytes) / each : 0;
}

/// One row a size: both one-way times, both streams, and how the second compares.
std::string draw_sizes(const std::vector<SizeCosts>& sizes, const std::string& first,
                       const std::string& second, const std::vector<bool>& changes) {
    TextTable table;
    table.add_column("bytes");
    for (const std::string& title :
         {"µs " + first, "µs " + second, "MB/s " + first, "MB/s " + second,
          std::string("cost ratio"), std::string("middle half")})
        table.add_column(title);
    table.add_column("", Align::Left);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const SizeCosts& size = sizes[i];
        const Comparison comparison = compare(size);
        std::string remark(to_text(comparison.verdict));
        if (i < changes.size() && !changes[i]) remark += " (same path)";
        table.add_row({format_size(size.bytes),
                       fmt::format("{:.3f}", median(size.first.one_way_us)),
                       fmt::format("{:.3f}", median(size.second.one_way_us)),
                       fmt::format("{:.0f}", rate(size.bytes, size.first)),
                       fmt::format("{:.0f}", rate(size.bytes, size.second)),
                       fmt::format("{:.3f}", comparison.ratio),
                       fmt::format("{:.3f}-{:.3f}", comparison.low, comparison.high), remark});
    }
    return table.draw("  ");
}

nlohmann::json sizes_json(const std::vector<SizeCosts>& sizes, const std::vector<bool>& changes) {
    auto list = nlohmann::json::array();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const SizeCosts& size = sizes[i];
        const Comparison comparison = compare(size);
        const auto costs = [&](const PointCosts& one) {
            return nlohmann::json{{"one_way_us", median(one.one_way_us)},
                                  {"mb_per_s", rate(size.bytes, one)}};
        };
        nlohmann::json entry{{"bytes", size.bytes},
                             {"first", costs(size.first)},
                             {"second", costs(size.second)},
                             {"ratio", comparison.ratio},
                             {"p25", comparison.low},
                             {"p75", comparison.high},
                             {"verdict", to_text(comparison.verdict)}};
        if (i < changes.size()) entry["changes"] = static_cast<bool>(changes[i]);
        list.push_back(entry);
    }
    return list;
}

}  // namespace

std::string draw_studies(const std::vector<SettingStudy>& studies) {
    std::string text;
    for (const SettingStudy& study : studies) {
        text += fmt::format("{}: {} now\n", study.name, study.now);
        if (!study.sizes.empty())
            text += "\n" + draw_sizes(study.sizes, study.first_name, study.second_name, {}) + "\n";
        text += fmt::format("  {}.\n", study.reason);
        if (!study.effect.empty())
            text += fmt::format("\n  {} (before) and {} (after):\n\n", study.now, study.chosen) +
                    draw_sizes(study.effect, "before", "after", study.changes);
        text += "\n";
    }
    text +=
        "The cost of a size is the geometric mean of its one-way time and of a message's time in a "
        "stream.\nBetter and worse: three quarters of the rounds agree, by more than 1 %.\n";
    return text;
}

nlohmann::json to_json(const std::vector<SettingStudy>& studies) {
    auto list = nlohmann::json::array();
    for (const SettingStudy& study : studies)
        list.push_back({{"name", study.name},
                        {"memory", to_text(study.memory)},
                        {"first", study.first_name},
                        {"second", study.second_name},
                        {"sizes", sizes_json(study.sizes, {})},
                        {"now", study.now},
                        {"chosen", study.chosen},
                        {"reason", study.reason},
                        {"effect", sizes_json(study.effect, study.changes)},
                        {"accepted", study.accepted},
                        {"verdict", study.verdict}});
    return list;
}

NewSettings values_to_store(const std::vector<SettingStudy>& studies, bool all) {
    NewSettings values;
    for (const SettingStudy& study : studies)
        if (all || study.accepted) values.emplace_back(study.name, study.chosen);
    return values;
}

}  // namespace via::tool
