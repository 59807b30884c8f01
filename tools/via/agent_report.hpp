// SPDX-License-Identifier: BSD-3-Clause
// The kernel agent's state as `via agent status --json` and the page of `via web` have it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ka/client.hpp"

namespace via::tool {

[[nodiscard]] nlohmann::json agent_json(const ka::AgentStatus& status);

}  // namespace via::tool
