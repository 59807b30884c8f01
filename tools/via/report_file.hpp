// SPDX-License-Identifier: BSD-3-Clause
// The results of `./run bench` as they stand in their JSON file. The file may come from anywhere,
// so everything in it is checked; whoever shows or compares results need not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "report_spread.hpp"
#include "stream_record.hpp"

namespace via::tool {

/// Of the file's form. It grows when a reader of the last one would misunderstand.
inline constexpr int report_schema = 2;

/// One of two that were measured in turn.
struct ReportSide {
    std::string label;
    std::string unit;
    std::vector<double> values;  ///< a failed take is no number
    std::optional<ReportSpread> spread;
};

struct ReportPair {
    std::string name;
    std::string title;
    ReportSide ours;
    std::optional<ReportSide> peer;
    std::optional<ReportSpread> ratio;
    std::vector<std::string> failures;
};

/// What of a row's value is good.
enum class Better : std::uint8_t { Less, More, Neither };

enum class ReportVerdict : std::uint8_t { Aim, Pass, Miss, Information, NotMeasured };

struct ReportRow {
    std::string name;
    std::string group;
    std::string title;
    std::string must;  ///< "≤ 0.65"; empty: for information
    std::string aim;
    Better better = Better::Less;
    ReportVerdict verdict = ReportVerdict::NotMeasured;
    std::optional<double> limit;        ///< the number in `must`
    std::optional<ReportSpread> value;  ///< a ratio, or our value in its unit
    std::string why;                    ///< NotMeasured
    std::size_t deciding = 0;           ///< the pair that decides; of most rows the only one
    std::size_t ahead = 0;              ///< of several pairs those in which ours is ahead
    std::size_t stream_bytes = 0;       ///< rates are shown as a stream of such messages
    bool advantage = false;             ///< the value is turned so that above 1 is ahead
    std::vector<ReportPair> pairs;      ///< at least one
    [[nodiscard]] const ReportPair& pair() const { return pairs[deciding]; }
};

struct ReportPoint {
    double bytes = 0;
    double median = 0;
};

struct ReportCurve {
    std::string label;
    std::string group;
    std::string unit;
    std::string problem;  ///< why there is nothing, or not all
    std::vector<ReportPoint> points;
};

/// A stream over two links, one of which is cut and comes back.
struct ReportLinks {
    std::string problem;  ///< why it was not run
    double seconds = 0;
    double interval = 0;
    std::vector<TimeCurve> curves;  ///< megabytes a second
    std::vector<TimeMark> marks;
    double stall_ms = 0;
    double stall_at = 0;
};

/// A figure of a paper and the simulator's.
struct ReportFigure {
    std::string paper;
    std::string what;
    std::string unit;
    std::string role;
    std::string kind;
    std::optional<double> low, high;
    double model = 0;
    std::optional<double> error_percent;
    double tolerance_percent = 0;
    std::optional<bool> met;  ///< none: the paper prints nothing here
};

struct ReportChart {
    std::string title;
    std::string unit;
    std::map<std::string, std::vector<std::pair<double, double>>> curves;
};

struct ReportSimulator {
    std::string problem;
    std::vector<ReportFigure> figures;
    std::vector<ReportChart> charts;
};

struct BenchReport {
    bool quick = false;
    std::string time;
    double seconds = 0;
    std::string processor;
    std::string kernel;
    std::size_t processors = 0;
    double load = 0;
    std::vector<std::size_t> cores;
    std::size_t repetitions = 0;
    std::vector<std::string> settings;
    std::map<std::string, std::string> versions;
    std::vector<ReportRow> rows;
    std::vector<ReportCurve> curves;
    std::optional<ReportLinks> links;
    std::optional<ReportSimulator> simulator;
};

/// "pass, aim", "pass", "MISS", "information", "not measured".
[[nodiscard]] std::string_view verdict_name(ReportVerdict verdict);

/// ProtocolViolation: the sentence says which member is wrong, and how.
[[nodiscard]] base::Result<BenchReport> parse_report(const nlohmann::json& document);
[[nodiscard]] base::Result<BenchReport> parse_report_text(std::string_view text);
/// The sentence begins with the path.
[[nodiscard]] base::Result<BenchReport> read_report(const std::string& path);

}  // namespace via::tool
