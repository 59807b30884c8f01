// SPDX-License-Identifier: BSD-3-Clause
// The whole table: its rows, the pairs they need, and the curves of the plots.
#pragma once

#include <string>
#include <vector>

#include "mpi.hpp"
#include "row.hpp"
#include "ucx.hpp"
#include "via_tool.hpp"

namespace via::bench {

struct Plan {
    std::vector<Pair> pairs;
    std::vector<Row> rows;
    std::vector<Curve> curves;
};

struct Contestants {
    ViaTool via;
    Ucx ucx;
    std::vector<Mpi> mpis;
    bare::CorePair cores;
};

/// Rows whose name is in `wanted`, all if it is empty. InvalidArgument: no row has such a name.
[[nodiscard]] base::Result<Plan> make_plan(const Contestants& contestants,
                                           const std::vector<std::string>& wanted);

void add_curves(Plan& plan, const Contestants& contestants, bool quick);

}  // namespace via::bench
