// SPDX-License-Identifier: BSD-3-Clause
// The whole table: its rows, the pairs they need, and the curves of the plots.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "row.hpp"

namespace via::bench {

/// What is looked at once in a run, beside rows and curves.
struct Scene {
    std::string title;
    double seconds = 1;  ///< about how long it takes
    std::function<void()> play;
};

struct Plan {
    std::vector<Pair> pairs;
    std::vector<Row> rows;
    std::vector<Curve> curves;
    std::vector<Scene> scenes;
};

/// Collects rows; a pair that two rows need is measured once.
class PlanBuilder {
  public:
    /// The index of the pair, for the row. One of that name that is there already is taken.
    std::size_t pair(std::string name, std::string title, const Probe& ours,
                     std::optional<Probe> peer);
    void row(Row row) { plan_.rows.push_back(std::move(row)); }
    [[nodiscard]] Plan take() { return std::move(plan_); }

  private:
    Plan plan_;
};

/// Leaves only rows that are wanted, and the pairs they need.
[[nodiscard]] Plan only_group(const Plan& plan, Group group);
/// InvalidArgument: no row has such a name.
[[nodiscard]] base::Result<Plan> only_rows(const Plan& plan, const std::vector<std::string>& names);

}  // namespace via::bench
