// SPDX-License-Identifier: BSD-3-Clause
// `via modes`: who should move structure and data, on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "modes/modes_report.hpp"
#include "modes/way_memory.hpp"
#include "probes.hpp"
#include "size_list.hpp"

namespace via::tool {
namespace {

using base::Result;

struct ModesOptions {
    std::string bytes = "4:64k";
    std::optional<std::uint32_t> rounds;
    std::optional<std::uint32_t> messages;
    std::optional<std::string> cpus;
    std::optional<std::string> results;
    bool quick = false;
    bool json = false;
};

Result<ModesPlan> make_plan(const ModesOptions& options) {
    auto sizes = parse_size_list(options.bytes);
    if (!sizes) return std::move(sizes).error();
    ModesPlan plan;
    plan.sizes = std::move(sizes).value();
    std::sort(plan.sizes.begin(), plan.sizes.end());
    plan.sizes.erase(std::unique(plan.sizes.begin(), plan.sizes.end()), plan.sizes.end());
    if (plan.sizes.front() == 0 || plan.sizes.back() > most_mode_bytes)
        return {base::Code::InvalidArgument,
                fmt::format("--bytes: {} is not a size from 1 to {}",
                            plan.sizes.front() == 0 ? 0 : plan.sizes.back(), most_mode_bytes)};
    const std::vector<Processor> processors = usable_processors();
    if (options.cpus) {
        auto cpus = parse_cpus(*options.cpus, processors);
        if (!cpus) return std::move(cpus).error();
        plan.cpus = cpus.value();
    } else {
        plan.cpus = choose_cpus(processors);
    }
    plan.rounds = options.rounds.value_or(options.quick ? 9 : 25);
    plan.messages = options.messages.value_or(options.quick ? 200 : 400);
    plan.show_progress = !options.json;
    return plan;
}

nlohmann::json machine_json(const ModesPlan& plan) {
    const Machine machine = describe_machine();
    return {{"kernel", machine.kernel},
            {"architecture", machine.architecture},
            {"processor", machine.processor},
            {"cpus", describe(plan.cpus)}};
}

Result<void> run(const ModesOptions& options) {
    auto plan = make_plan(options);
    if (!plan) return std::move(plan).error();
    auto measured = measure_ways(plan.value());
    if (!measured) return std::move(measured).error();
    auto simulated = simulate_ways(plan.value().sizes);
    if (!simulated) return std::move(simulated).error();
    const ModesReport report{plan.value().sizes, std::move(measured).value(),
                             std::move(simulated).value()};
    if (options.json) {
        nlohmann::json all = to_json(report);
        all["machine"] = machine_json(plan.value());
        all["rounds"] = plan.value().rounds;
        all["messages"] = plan.value().messages;
        print_json(all);
    } else {
        fmt::print(
            "The six ways to send, between two processes on {}; {} rounds of {} messages\n\n",
            describe(plan.value().cpus), plan.value().rounds, plan.value().messages);
        fmt::print("{}\n", draw_tables(report));
        for (const std::string& sentence : crossover_sentences(report))
            fmt::print("{}\n", sentence);
        fmt::print("\nAll data arrived: {} messages were compared in every byte, {} in places.\n",
                   report.measured.checked, report.measured.timed);
    }
    if (!options.results) return {};
    const auto written = write_files(report, machine_json(plan.value()), *options.results);
    if (!written && written.error().code != base::Code::NotFound) return written;
    if (!options.json)
        fmt::print("{}\n", written
                               ? fmt::format("The picture: {0}/modes.svg and {0}/modes.png "
                                             "(numbers: modes.json)",
                                             *options.results)
                               : fmt::format("No picture: {}. The numbers are in {}/modes.json.",
                                             written.error().sentence, *options.results));
    return {};
}

}  // namespace

void add_modes_command(CLI::App& app, int& status) {
    auto options = std::make_shared<ModesOptions>();
    CLI::App* command = app.add_subcommand(
        "modes", "Measure who should move structure and data: six ways to send, on this machine");
    command->add_option("--bytes,--sizes", options->bytes, "Message sizes, up to 64k")
        ->capture_default_str();
    command->add_flag("--quick", options->quick, "Fewer rounds");
    command
        ->add_option("--rounds", options->rounds,
                     "How often to go through all (default: 25, quick 9)")
        ->check(CLI::Range(1U, 10000U));
    command
        ->add_option("--messages", options->messages,
                     "Messages of a size in a way in each round (default: 400, quick 200)")
        ->check(CLI::Range(1U, 1000000U));
    command->add_option("--cpus", options->cpus, "Processors for the two sides, such as 0,1");
    command->add_option("--results", options->results,
                        "Folder for a plot beside the simulated Pentium II, and the numbers");
    command->add_flag("--json", options->json, "Print JSON");
    command->callback([options, &status] {
        const auto done = run(*options);
        status = done ? status_good : report_failure(done.error());
    });
}

}  // namespace via::tool
