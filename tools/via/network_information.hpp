// SPDX-License-Identifier: BSD-3-Clause
// What `via info` says about connections to other hosts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace via::tool {

/// `agent`: what is known of the kernel agent.
[[nodiscard]] nlohmann::json network_information(const nlohmann::json& agent);
[[nodiscard]] std::string describe_network(const nlohmann::json& network);

}  // namespace via::tool
