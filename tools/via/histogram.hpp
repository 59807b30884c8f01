// SPDX-License-Identifier: BSD-3-Clause
// A histogram of times: bins whose width is a fixed share of their value, drawn as bars of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace via::tool {

struct HistogramBin {
    double from = 0;  ///< inclusive
    double to = 0;    ///< exclusive, but for the last bin
    std::uint64_t count = 0;
};

/// `bins` bins of equal ratio from the smallest value to the 99th percentile, where nearly all lie,
/// then one for each power of ten up to the largest. Values that are not positive are counted in
/// the first bin. All alike: one bin; none: no bins.
[[nodiscard]] std::vector<HistogramBin> make_histogram(std::span<const double> values,
                                                       std::size_t bins = 20);

/// One line a bin, with `unit` after its limits; runs of empty bins become one line "...".
[[nodiscard]] std::string draw_histogram(std::span<const HistogramBin> bins, std::string_view unit,
                                         std::size_t bar_width = 50);

/// A bar of eighth blocks for `share` of `width` columns, padded with blanks to `width`.
[[nodiscard]] std::string draw_bar(double share, std::size_t width);

}  // namespace via::tool
