// SPDX-License-Identifier: BSD-3-Clause
// `via sim reproduce`: every figure of the papers beside the model's.
#include <fmt/format.h>
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "reproduction_report.hpp"
#include "sim_commands.hpp"

namespace via::tool {
namespace {

using base::Result;

struct ReproduceOptions {
    std::string results = "sim-results";
    bool sensitivity = false;
    bool json = false;
};

/// A table that needs no folder.
Result<void> show_sensitivity(const ReproduceOptions& options) {
    const auto influences = sim::headline_influences();
    if (!influences) return influences.error();
    if (options.json) {
        print_json({{"sensitivity", to_json(influences.value())}});
        return {};
    }
    fmt::print(
        "How far headline figures move when a value that is fitted or guessed is a tenth smaller "
        "or greater:\nhalf a percent and more; of open values, for which no source was found, the "
        "greatest anyway.\n\n{}",
        draw_influences(influences.value()));
    return {};
}

Result<void> reproduce(const ReproduceOptions& options) {
    sim::Laboratory laboratory;
    const auto answered = sim::answer_figures(laboratory);
    if (!answered) return answered.error();
    nlohmann::json report = to_json(answered.value());
    report["results"] = options.results;
    const auto written = write_reproduction(report, laboratory, options.results);
    const bool no_pictures = !written && written.error().code == base::Code::NotFound;
    if (!written && !no_pictures) return written.error();
    if (options.json) {
        report["pictures"] = !no_pictures;
        print_json(report);
        return {};
    }
    const std::size_t missed = count_missed(answered.value());
    fmt::print("{}\n{}\n", draw_figures(answered.value()), draw_unmodelled());
    if (missed == 0)
        fmt::print("All are met.\n");
    else
        fmt::print("{} {} MISSED.\n", missed, missed == 1 ? "is" : "are");
    if (no_pictures)
        fmt::print("No pictures: {}. The numbers are in {}/reproduction.json.\n",
                   written.error().sentence, options.results);
    else
        fmt::print("Numbers and pictures (SVG and PNG) are in {}.\n", options.results);
    return {};
}

}  // namespace

void add_sim_reproduce_command(CLI::App& sim, int& status) {
    auto options = std::make_shared<ReproduceOptions>();
    CLI::App* command = sim.add_subcommand(
        "reproduce", "Every figure of the papers beside the model's, with plots");
    command->add_option("--results", options->results, "Folder for reproduction.json and the plots")
        ->capture_default_str();
    command->add_flag("--sensitivity", options->sensitivity,
                      "Instead: what the figures owe to values that nobody has printed");
    command->add_flag("--json", options->json, "As JSON");
    command->callback([options, &status] {
        const auto done = options->sensitivity ? show_sensitivity(*options) : reproduce(*options);
        status = done ? status_good : report_failure(done.error());
    });
}

}  // namespace via::tool
