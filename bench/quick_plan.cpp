// SPDX-License-Identifier: BSD-3-Clause
#include "quick_plan.hpp"

#include <algorithm>

namespace via::bench {

namespace {

/// The most telling row of each kind; what is left out differs from them in size or peer only.
constexpr QuickRow quick_table[] = {
    {"latency-8-bare", 1.0},
    {"latency-8-ucx", 1.4},
    {"rate-8-ucx", 1.4},
    {"stream-4k-ucx", 1.4},
    {"stream-1m-kmem", 1.2},
    {"stream-1m-cma", 1.4},
    {"idle-vis", 1.2},
    {"one-core", 1.0},
    {"vi-memory", 1.0},
    {"blocked-cpu", 2.3},
    {"net-latency-8-udp", 1.4},
    {"net-latency-8-raw", 1.4},
    {"net-latency-8-openmpi", 1.8},
    {"net-stream-1m-1500", 2.4},
    {"net-rate-64", 1.8},
    {"net-cpu-1m", 2.4},
    {"net-links-equal", 2.4},
    {"net-adaptive-unequal", 4.8},
    {"net-loss", 2.0},
    {"net-cut", 2.4},
    {"net-share", 4.0},
    {"mpi-latency-8", 3.6},
    {"mpi-stream-1m", 3.6},
    {"mpi-rate-8", 3.6},
    {"mpi-allreduce-8", 1.8},
    {"mpi-blocked", 2.0},
    {"mpi-fabric-8", 1.6},
    {"mpi-memory-64", 1.5},
    {"mpi-net-latency-8", 2.0},
    {"mpi-net-stream-1m", 2.2},
    {"sim-events", 0.6},
};

}  // namespace

std::span<const QuickRow> quick_rows() {
    return quick_table;
}

double quick_seconds(const Plan& plan) {
    double sum = 0;
    for (const Row& row : plan.rows) {
        const auto quick =
            std::find_if(std::begin(quick_table), std::end(quick_table),
                         [&](const QuickRow& each) { return each.name == row.name; });
        if (quick != std::end(quick_table)) sum += quick->seconds * quick_repetitions.pairs;
    }
    for (const Curve& curve : plan.curves)
        sum += static_cast<double>(curve.steps.size() * quick_repetitions.curves) *
               quick_curve_step_seconds;
    for (const Scene& scene : plan.scenes)
        sum += scene.seconds;
    return sum;
}

Plan only_quick(const Plan& plan) {
    std::vector<std::string> names;
    for (const Row& row : plan.rows) {
        if (std::any_of(std::begin(quick_table), std::end(quick_table),
                        [&](const QuickRow& each) { return each.name == row.name; }))
            names.push_back(row.name);
    }
    Plan result = only_rows(plan, names).value();
    result.curves = plan.curves;
    result.scenes = plan.scenes;
    return result;
}

}  // namespace via::bench
