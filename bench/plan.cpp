// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <algorithm>

namespace via::bench {

namespace {

/// Adds a row of one plan to another.
void adopt(Plan& plan, const Plan& from, Row row) {
    for (std::size_t& index : row.pairs) {
        const Pair& pair = from.pairs[index];
        const auto same = std::find_if(plan.pairs.begin(), plan.pairs.end(),
                                       [&](const Pair& other) { return other.name == pair.name; });
        index = static_cast<std::size_t>(same - plan.pairs.begin());
        if (same == plan.pairs.end()) plan.pairs.push_back(pair);
    }
    plan.rows.push_back(std::move(row));
}

}  // namespace

std::size_t PlanBuilder::pair(std::string name, std::string title, const Probe& ours,
                              std::optional<Probe> peer) {
    for (std::size_t index = 0; index < plan_.pairs.size(); ++index) {
        if (plan_.pairs[index].name == name) return index;
    }
    Pair pair;
    pair.name = std::move(name);
    pair.title = std::move(title);
    pair.ours = ours;
    pair.peer = std::move(peer);
    plan_.pairs.push_back(std::move(pair));
    return plan_.pairs.size() - 1;
}

Plan only_group(const Plan& plan, Group group) {
    Plan result;
    for (const Row& row : plan.rows) {
        if (row.group == group) adopt(result, plan, row);
    }
    return result;
}

base::Result<Plan> only_rows(const Plan& plan, const std::vector<std::string>& names) {
    Plan result;
    for (const std::string& name : names) {
        const auto found = std::find_if(plan.rows.begin(), plan.rows.end(),
                                        [&](const Row& row) { return row.name == name; });
        if (found == plan.rows.end()) {
            return {base::Code::InvalidArgument,
                    "there is no row \"" + name + "\"; --list shows all names"};
        }
        adopt(result, plan, *found);
    }
    return result;
}

}  // namespace via::bench
