// SPDX-License-Identifier: BSD-3-Clause
// What the page shows of this host and, with a lab, of its hosts: `api/live`. The numbers have the
// names that they have in `via stat --json`, `via links --json` and `via agent status --json`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "process_report.hpp"

namespace via::tool::web {

/// One host at one look.
struct HostView {
    std::string name;                      ///< empty: this one; else a host of a lab
    std::optional<ka::AgentStatus> agent;  ///< none: no agent runs
    std::string problem;                   ///< why nothing is known
    std::vector<ReportedProcess> processes;
};

/// More VIs of a process are left out of what is sent; the sums are of all.
inline constexpr std::size_t most_vis_shown = 64;

[[nodiscard]] nlohmann::json live_json(const std::vector<HostView>& hosts, std::int64_t unix_ms);

}  // namespace via::tool::web
