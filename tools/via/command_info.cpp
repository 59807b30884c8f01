// SPDX-License-Identifier: BSD-3-Clause
// `via info`: devices, their attributes, and what works on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "information.hpp"

namespace via::tool {

void add_info_command(CLI::App& app, int& status) {
    struct Options {
        bool json = false;
        bool brief = false;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand(
        "info", "Show devices, their attributes and which ways of copying work here and why");
    command->add_flag("--json", options->json, "Print JSON");
    command->add_flag("--brief", options->brief, "A few lines");
    command->callback([options, &status] {
        const nlohmann::json information = collect_information();
        if (options->json)
            print_json(information);
        else
            fmt::print("{}", describe_information(information, options->brief));
        // A host without a single usable device is what this command is there to find.
        status = information["devices"].empty() ? status_failed : status_good;
    });
}

}  // namespace via::tool
