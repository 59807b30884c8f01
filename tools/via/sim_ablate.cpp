// SPDX-License-Identifier: BSD-3-Clause
// `via sim ablate`: the model without one mechanism must miss a figure, and in the way stated.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "sim/experiment/ablations.hpp"
#include "sim_commands.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

nlohmann::json ablations_to_json(const std::vector<sim::AblationResult>& results) {
    auto all = nlohmann::json::array();
    for (const sim::AblationResult& each : results)
        all.push_back({{"name", each.ablation->name},
                       {"without", each.ablation->without},
                       {"quantity", each.ablation->quantity},
                       {"unit", each.ablation->unit},
                       {"statement", each.ablation->statement},
                       {"figure", each.ablation->figure},
                       {"with_mechanism", each.with},
                       {"without_mechanism", each.without},
                       {"fails_as_stated", each.fails_as_stated()}});
    return {{"ablations", std::move(all)}};
}

std::string draw(const std::vector<sim::AblationResult>& results) {
    TextTable table;
    table.add_column("taken away", Align::Left);
    table.add_column("quantity", Align::Left);
    table.add_column("unit", Align::Left);
    table.add_column("with");
    table.add_column("without");
    table.add_column("stated", Align::Left);
    table.add_column("figure that fails", Align::Left);
    table.add_column("", Align::Left);
    for (const sim::AblationResult& each : results)
        table.add_row({std::string(each.ablation->without), std::string(each.ablation->quantity),
                       std::string(each.ablation->unit), fmt::format("{:.4g}", each.with),
                       fmt::format("{:.4g}", each.without), std::string(each.ablation->statement),
                       std::string(each.ablation->figure),
                       each.fails_as_stated() ? "as stated" : "NOT AS STATED"});
    return table.draw();
}

int run_ablate(bool json) {
    sim::Laboratory laboratory;
    const auto results = sim::run_ablations(laboratory);
    if (!results) return report_failure(results.error());
    std::string wrong;
    for (const sim::AblationResult& each : results.value())
        if (!each.fails_as_stated())
            wrong += (wrong.empty() ? "" : ", ") + std::string(each.ablation->name);
    if (json)
        print_json(ablations_to_json(results.value()));
    else
        fmt::print("{}", draw(results.value()));
    if (wrong.empty()) return status_good;
    return report_failure(
        {base::Code::InvalidState, "these ablations do not fail as stated: " + wrong});
}

}  // namespace

void add_sim_ablate_command(CLI::App& sim, int& status) {
    auto json = std::make_shared<bool>(false);
    CLI::App* command =
        sim.add_subcommand("ablate", "Take one mechanism away at a time: which figure then fails?");
    command->add_flag("--json", *json, "As JSON");
    command->callback([json, &status] { status = run_ablate(*json); });
}

}  // namespace via::tool
