// SPDX-License-Identifier: BSD-3-Clause
// What many measurements of the same thing say together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace via::tool {

struct Summary {
    std::size_t count = 0;
    double mean = 0;
    double minimum = 0;
    double maximum = 0;
    double p50 = 0;
    double p90 = 0;
    double p99 = 0;
    double p999 = 0;
};

/// `share` from 0 to 1 of ascending values; between two ranks it interpolates. 0 without values.
[[nodiscard]] double percentile_of_sorted(std::span<const double> ascending, double share);

[[nodiscard]] double median(std::vector<double> values);

/// Sorts `values` in place.
[[nodiscard]] Summary summarize(std::vector<double>& values);

}  // namespace via::tool
