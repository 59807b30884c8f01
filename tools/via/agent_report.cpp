// SPDX-License-Identifier: BSD-3-Clause
#include "agent_report.hpp"

#include <nlohmann/json.hpp>

#include "text_table.hpp"

namespace via::tool {

nlohmann::json agent_json(const ka::AgentStatus& status) {
    auto processes = nlohmann::json::array();
    for (const ka::ProcessStatus& process : status.processes)
        processes.push_back({{"pid", process.pid},
                             {"uid", process.uid},
                             {"program", printable(process.program)},
                             {"attached_seconds", process.attached_seconds},
                             {"vis", process.vis},
                             {"connections", process.connections},
                             {"waiting", process.waiting},
                             {"regions", process.regions},
                             {"registered_bytes", process.registered_bytes},
                             {"kmem_bytes", process.kmem_bytes}});
    return {{"running", true},
            {"pid", status.pid},
            {"uid", status.uid},
            {"version", status.version},
            {"socket", status.socket},
            {"on_demand", status.on_demand},
            {"uptime_seconds", status.uptime_seconds},
            {"idle_seconds_limit", status.idle_seconds_limit},
            {"huge_pages", status.huge_pages},
            {"net_port", status.net_port},
            {"net_key", status.net_key},
            {"net_problem", status.net_problem},
            {"processes", processes}};
}

}  // namespace via::tool
