// SPDX-License-Identifier: BSD-3-Clause
// Results of a run that never was, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace via::tool::test {

/// The spread of ascending values, the quartiles halfway to the ends.
[[nodiscard]] nlohmann::json spread_json(double minimum, double median, double maximum,
                                         std::size_t count = 7);

/// A row of one pair: ours in microseconds beside a peer, the ratio as given.
[[nodiscard]] nlohmann::json ratio_row(const std::string& name, const nlohmann::json& ratio,
                                       const std::string& verdict);

/// Rows of all verdicts and groups, curves, links and figures.
[[nodiscard]] nlohmann::json sample_report();

}  // namespace via::tool::test
