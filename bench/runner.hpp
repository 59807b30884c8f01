// SPDX-License-Identifier: BSD-3-Clause
// Takes all probes of a plan in turn: ours, the peer's, ours, the peer's. The whole table is gone
// through once per repetition, so that a disturbance of the machine is spread over all rows.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "plan.hpp"

namespace via::bench {

/// A point of a curve with all its takes.
struct CurvePoint {
    std::size_t bytes = 0;
    std::vector<double> values;
};

struct CurveResult {
    std::string label;
    Quantity quantity = Quantity::OneWayMicroseconds;
    std::vector<CurvePoint> points;
    std::string problem;  ///< first failure; empty if none
    Group group = Group::InHost;
};

struct Repetitions {
    std::size_t pairs = 7;
    std::size_t curves = 3;
    // Of the run; 0: however long it takes.
    double seconds = 0;       ///< after so long nothing is taken a second time,
    double last_seconds = 0;  ///< and after so long nothing at all
};

/// Fills the values of plan.pairs. Nothing new is begun once `stop` says so.
[[nodiscard]] std::vector<CurveResult> run_plan(Plan& plan, Repetitions repetitions,
                                                const std::function<bool()>& stop = {});

}  // namespace via::bench
