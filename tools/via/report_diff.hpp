// SPDX-License-Identifier: BSD-3-Clause
// What got slower between two runs of `./run bench`, with the spread of both taken into account.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report_file.hpp"

namespace via::tool {

enum class ChangeKind : std::uint8_t {
    Slower,       ///< worse, by more than the tolerance and than both spreads
    Faster,       ///< better, by as much
    Same,         ///< whatever there is may be chance
    Incomparable  ///< in both, but not measured in one, or not of the same quantity
};
[[nodiscard]] std::string_view change_name(ChangeKind kind);

struct RowChange {
    const ReportRow* before = nullptr;
    const ReportRow* after = nullptr;
    ChangeKind kind = ChangeKind::Incomparable;
    double change_percent = 0;  ///< of the row's value: the ratio, or ours where there is no peer
    double ours_percent = 0;    ///< of our own value, which also moves with the machine
    std::string why;            ///< Incomparable
};

struct ReportDiff {
    std::vector<std::string> warnings;  ///< why the two runs may differ without our doing
    std::vector<RowChange> rows;        ///< in the order of the second run
    std::vector<const ReportRow*> only_before;
    std::vector<const ReportRow*> only_after;

    [[nodiscard]] std::size_t count(ChangeKind kind) const;
};

/// How far apart single values of a run lie: the distance of the quartiles, or of the extremes
/// where the values are too few to have quartiles.
[[nodiscard]] double width_of(const ReportSpread& spread);

/// Of one row in two runs. It changed if the medians differ by more than `tolerance_percent` of the
/// first one and by more than the width of either run.
[[nodiscard]] RowChange compare_rows(const ReportRow& before, const ReportRow& after,
                                     double tolerance_percent);

/// The reports must outlive the result.
[[nodiscard]] ReportDiff compare_reports(const BenchReport& before, const BenchReport& after,
                                         double tolerance_percent);

/// A table, the worst first; without `all` rows that are the same are only counted.
[[nodiscard]] std::string draw_diff(const ReportDiff& diff, bool all);
[[nodiscard]] nlohmann::json to_json(const ReportDiff& diff);

}  // namespace via::tool
