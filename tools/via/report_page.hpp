// SPDX-License-Identifier: BSD-3-Clause
// The results of `./run bench` as one page of HTML that needs nothing else: no script, no picture,
// no style from elsewhere.
#pragma once

#include <string>

#include "report_file.hpp"

namespace via::tool {

/// How many of the rows that demand something hold.
struct ReportCount {
    std::size_t demands = 0;
    std::size_t passed = 0;
    std::size_t aims = 0;  ///< of those that passed
    std::size_t missed = 0;
    std::size_t not_measured = 0;
};
[[nodiscard]] ReportCount count_rows(const BenchReport& report);

/// The middle of repeated values as people read it: "0.123 µs", "–" if there is none.
[[nodiscard]] std::string shown_side(const ReportSide& side, std::size_t stream_bytes = 0);
/// A row's value: a ratio as "0.58", our own value with its unit.
[[nodiscard]] std::string shown_row_value(const ReportRow& row, double value);

/// Well-formed as XML too.
[[nodiscard]] std::string report_page(const BenchReport& report);

}  // namespace via::tool
