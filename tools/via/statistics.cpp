// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace via::tool {

double percentile_of_sorted(std::span<const double> ascending, double share) {
    if (ascending.empty()) return 0;
    const double rank = std::clamp(share, 0.0, 1.0) * static_cast<double>(ascending.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(rank));
    const std::size_t above = std::min(below + 1, ascending.size() - 1);
    const double part = rank - static_cast<double>(below);
    return ascending[below] + (ascending[above] - ascending[below]) * part;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return percentile_of_sorted(values, 0.5);
}

Summary summarize(std::vector<double>& values) {
    Summary summary;
    if (values.empty()) return summary;
    std::sort(values.begin(), values.end());
    summary.count = values.size();
    summary.mean =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    summary.minimum = values.front();
    summary.maximum = values.back();
    summary.p50 = percentile_of_sorted(values, 0.50);
    summary.p90 = percentile_of_sorted(values, 0.90);
    summary.p99 = percentile_of_sorted(values, 0.99);
    summary.p999 = percentile_of_sorted(values, 0.999);
    return summary;
}

}  // namespace via::tool
