// SPDX-License-Identifier: BSD-3-Clause
// The table for people and the same, with every single value, as JSON. The page is made from the
// JSON (via/report_page.hpp).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bare/bare_limits.hpp"
#include "machine.hpp"
#include "runner.hpp"

namespace via::bench {

struct RunFacts {
    Machine machine;
    bare::CorePair cores;
    Repetitions repetitions;
    std::vector<std::pair<std::string, std::string>> versions;
    std::vector<std::string> settings;  ///< VIA_* variables that were set, "NAME=value"
    double seconds = 0;
    bool quick = false;  ///< fewer rows and repetitions: its ratios are indications
};

[[nodiscard]] std::string table_text(const Plan& plan, const RunFacts& facts);

[[nodiscard]] nlohmann::json results_json(const Plan& plan, const std::vector<CurveResult>& curves,
                                          const RunFacts& facts);

}  // namespace via::bench
