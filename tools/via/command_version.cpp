// SPDX-License-Identifier: BSD-3-Clause
// `via version`
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"

namespace via::tool {

void add_version_command(CLI::App& app, int& status) {
    auto json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("version", "Say which version this is");
    command->add_flag("--json", *json, "Print JSON");
    command->callback([json, &status] {
        if (*json)
            print_json({{"version", version_text()}, {"vipl", "1.0"}});
        else
            fmt::print("via {} (VIPL 1.0)\n", version_text());
        status = status_good;
    });
}

}  // namespace via::tool
