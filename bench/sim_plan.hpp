// SPDX-License-Identifier: BSD-3-Clause
// The row of the simulator.
#pragma once

#include <string>
#include <string_view>

#include "plan.hpp"

namespace via::bench {

/// Names of rows of the simulator begin so.
inline constexpr std::string_view sim_prefix = "sim-";

/// `folder` is where sim_events is.
void add_sim_rows(PlanBuilder& builder, const std::string& folder);

}  // namespace via::bench
