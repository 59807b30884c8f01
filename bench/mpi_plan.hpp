// SPDX-License-Identifier: BSD-3-Clause
// The rows of MPI programs over Viaduct: the same binary by each way to the other rank.
#pragma once

#include <string>
#include <vector>

#include "mpi.hpp"
#include "net/net_labs.hpp"
#include "plan.hpp"

namespace via::bench {

struct MpiContestants {
    Mpi open_mpi;  ///< over vader
    Mpi mpich;
    std::string via;           ///< the program
    std::string folder;        ///< with fabric_ranks and viad
    std::string components;    ///< where Open MPI looks for components, ours among them
    std::string provider;      ///< the folder of libvia-fi.so
    std::string agent_socket;  ///< keeps these runs away from any agent the user has
    bare::CorePair cores;
    std::string no_component;  ///< why there is no component; empty if there is
    std::string missing;       ///< why there is no provider; empty if there is
    const NetLabs* labs = nullptr;
    std::string no_labs;  ///< why the labs are not up; empty if they are
};

/// Names of rows of MPI begin so.
inline constexpr std::string_view mpi_prefix = "mpi-";

void add_mpi_rows(PlanBuilder& builder, const MpiContestants& contestants);

/// Latency and stream against the size, inside a host.
void add_mpi_curves(Plan& plan, const MpiContestants& contestants, bool quick);

}  // namespace via::bench
