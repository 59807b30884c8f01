// SPDX-License-Identifier: BSD-3-Clause
#include "sim_plan.hpp"

#include <algorithm>
#include <utility>

#include "process.hpp"
#include "via_tool.hpp"

namespace via::bench {

namespace {

constexpr std::uint64_t events_milliseconds = 60'000;
constexpr double least_events = 2e6;

/// The slowest of the program's workloads.
Probe events_a_second(const std::string& folder) {
    Command command;
    command.arguments = {folder + "/sim_events", "--json", "--repetitions", "1"};
    Probe probe{"sim_events", Quantity::EventsPerSecond, {}, {}};
    if (find_program(command.arguments.front()).empty())
        probe.missing = "no program " + command.arguments.front();
    probe.take = [command]() -> base::Result<double> {
        auto output = run(command, base::Deadline::after_milliseconds(events_milliseconds));
        if (!output) return std::move(output).error();
        double least = 0;
        for (const char* workload : {"timers", "delays", "resources"}) {
            const auto rate = json_number(
                output.value(), std::string(workload) + "/events_per_second", "sim_events");
            if (!rate) return rate;
            least = least == 0 ? rate.value() : std::min(least, rate.value());
        }
        return least;
    };
    return probe;
}

}  // namespace

void add_sim_rows(PlanBuilder& builder, const std::string& folder) {
    Row row;
    row.name = std::string(sim_prefix) + "events";
    row.title = "events a second on one core, the slowest of three workloads";
    row.relation = Relation::AtLeast;
    row.must = least_events;
    row.must_text = "≥ " + show(least_events, Quantity::EventsPerSecond);
    row.group = Group::Simulator;
    row.pairs = {builder.pair(row.name, "events a second", events_a_second(folder), std::nullopt)};
    builder.row(std::move(row));
}

}  // namespace via::bench
