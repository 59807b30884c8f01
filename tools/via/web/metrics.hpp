// SPDX-License-Identifier: BSD-3-Clause
// The same numbers for Prometheus, in its text format 0.0.4: `metrics`.
#pragma once

#include <string>
#include <vector>

#include "web/live.hpp"

namespace via::tool::web {

inline constexpr const char* metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

[[nodiscard]] std::string metrics_text(const std::vector<HostView>& hosts);

}  // namespace via::tool::web
