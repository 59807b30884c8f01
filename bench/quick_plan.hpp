// SPDX-License-Identifier: BSD-3-Clause
// What `./run bench --quick` measures: rows of every kind, few times, in less than five minutes.
#pragma once

#include <span>
#include <string_view>

#include "plan.hpp"
#include "runner.hpp"

namespace via::bench {

struct QuickRow {
    std::string_view name;
    double seconds;  ///< that ours and the peer take once, together, at most on two cores
};

/// At least one for every kind of measure.
[[nodiscard]] std::span<const QuickRow> quick_rows();

/// A slow machine gets fewer repetitions, and a very slow one fewer rows, not a longer run.
inline constexpr Repetitions quick_repetitions{3, 1, 210, 255};

/// What the whole run has to stay below.
inline constexpr double quick_limit_seconds = 300;

/// Of a step of a curve, on the mean.
inline constexpr double quick_curve_step_seconds = 0.8;

/// How long the run will take at most: rows by `quick_rows`, each as often as repeated, curves by
/// their steps, scenes by their own seconds.
[[nodiscard]] double quick_seconds(const Plan& plan);

/// Only rows of `quick_rows`, and the pairs they need.
[[nodiscard]] Plan only_quick(const Plan& plan);

}  // namespace via::bench
