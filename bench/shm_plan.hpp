// SPDX-License-Identifier: BSD-3-Clause
// The rows and curves of messages inside a host.
#pragma once

#include <vector>

#include "mpi.hpp"
#include "plan.hpp"
#include "ucx.hpp"
#include "via_tool.hpp"

namespace via::bench {

struct Contestants {
    ViaTool via;
    Ucx ucx;
    std::vector<Mpi> mpis;
    bare::CorePair cores;
};

void add_shm_rows(PlanBuilder& builder, const Contestants& contestants);

void add_shm_curves(Plan& plan, const Contestants& contestants, bool quick);

}  // namespace via::bench
