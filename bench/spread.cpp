// SPDX-License-Identifier: BSD-3-Clause
#include "spread.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace via::bench {

namespace {

/// `share` from 0 to 1 of ascending values, between two ranks in proportion.
double quantile(std::span<const double> ascending, double share) {
    const double rank = share * static_cast<double>(ascending.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    const std::size_t above = std::min(below + 1, ascending.size() - 1);
    const double part = rank - static_cast<double>(below);
    return ascending[below] + part * (ascending[above] - ascending[below]);
}

}  // namespace

Spread spread_of(std::span<const double> values) {
    std::vector<double> good;
    std::copy_if(values.begin(), values.end(), std::back_inserter(good),
                 [](double value) { return std::isfinite(value); });
    if (good.empty()) return {};
    std::sort(good.begin(), good.end());
    return {.count = good.size(),
            .median = quantile(good, 0.5),
            .minimum = good.front(),
            .lower_quartile = quantile(good, 0.25),
            .upper_quartile = quantile(good, 0.75),
            .maximum = good.back()};
}

std::vector<double> ratios(std::span<const double> dividends, std::span<const double> divisors) {
    std::vector<double> result(std::min(dividends.size(), divisors.size()),
                               std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < result.size(); ++i) {
        if (divisors[i] != 0) result[i] = dividends[i] / divisors[i];
    }
    return result;
}

}  // namespace via::bench
