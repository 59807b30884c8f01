// SPDX-License-Identifier: BSD-3-Clause
// The rows of messages between hosts.
#pragma once

#include <string>

#include "mpi.hpp"
#include "net/net_labs.hpp"
#include "plan.hpp"
#include "via_tool.hpp"

namespace via::bench {

struct NetContestants {
    ViaTool via;
    Mpi open_mpi;  ///< between hosts of labs.fast
    bare::CorePair cores;
    const NetLabs* labs = nullptr;
    std::string missing;  ///< why the labs are not up; empty if they are
};

/// Names of rows between hosts begin so.
inline constexpr std::string_view net_prefix = "net-";

void add_net_rows(PlanBuilder& builder, const NetContestants& contestants);

/// Latency and stream against the size, on one link as fast as the machine.
void add_net_curves(Plan& plan, const NetContestants& contestants, bool quick);

}  // namespace via::bench
