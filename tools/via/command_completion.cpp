// SPDX-License-Identifier: BSD-3-Clause
// `via completion`
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "command.hpp"
#include "completion.hpp"

namespace via::tool {

void add_completion_command(CLI::App& app, int& status) {
    auto shell = std::make_shared<std::string>();
    CLI::App* command =
        app.add_subcommand("completion", "Print a script that completes this command line");
    command->add_option("shell", *shell, "for which shell")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh"}));
    command->callback([&app, shell, &status] {
        fmt::print("{}", *shell == "bash" ? bash_completion(app) : zsh_completion(app));
        status = status_good;
    });
}

}  // namespace via::tool
