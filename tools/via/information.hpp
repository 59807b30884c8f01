// SPDX-License-Identifier: BSD-3-Clause
// All that `via info` knows, collected.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace via::tool {

/// The whole of it as JSON: machine, processors, limits, copy paths, facilities, agent, devices,
/// aliases. Never fails; what cannot be found out says so in its place.
[[nodiscard]] nlohmann::json collect_information();

/// For people; `brief` is a few lines.
[[nodiscard]] std::string describe_information(const nlohmann::json& information, bool brief);

}  // namespace via::tool
