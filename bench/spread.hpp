// SPDX-License-Identifier: BSD-3-Clause
// What repeated measurements say together, and how two interleaved series compare.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "via/report_spread.hpp"

namespace via::bench {

using Spread = tool::ReportSpread;

/// Values that are not finite (failed takes) are left out.
[[nodiscard]] Spread spread_of(std::span<const double> values);

/// Element by element, so that what disturbed both takes of a repetition cancels out. Not finite
/// where one of the two failed or the divisor is 0.
[[nodiscard]] std::vector<double> ratios(std::span<const double> dividends,
                                         std::span<const double> divisors);

}  // namespace via::bench
