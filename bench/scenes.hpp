// SPDX-License-Identifier: BSD-3-Clause
// What a run looks at once: how a stream goes on when a link is cut, and the papers' figures beside
// the simulator's. Both are commands that a user can type; what they say goes into the results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan.hpp"
#include "via_tool.hpp"

namespace via::bench {

/// `record` gets what `via lab demo` says, or {"problem": why not}; it must outlive the scene.
/// `missing`: why there can be no labs; empty if there can.
[[nodiscard]] Scene links_over_time(const ViaTool& via, const std::string& missing, bool quick,
                                    nlohmann::json& record);

/// `record` gets what `via sim reproduce` writes into the folder, or {"problem": why not}.
[[nodiscard]] Scene papers_beside_simulator(const ViaTool& via, const std::string& folder,
                                            nlohmann::json& record);

}  // namespace via::bench
