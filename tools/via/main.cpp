// SPDX-License-Identifier: BSD-3-Clause
// The command-line program `via`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "command.hpp"

int main(int argc, char** argv) {
    using namespace via::tool;
    CLI::App app("Viaduct: messages between processes past the kernel", "via");
    app.set_version_flag("--version", fmt::format("via {} (VIPL 1.0)", version_text()));
    app.require_subcommand(1);
    app.get_formatter()->column_width(34);
    int status = status_misused;
    add_info_command(app, status);
    add_pingpong_command(app, status);
    add_window_command(app, status);
    add_stat_command(app, status);
    add_protocols_command(app, status);
    add_links_command(app, status);
    add_web_command(app, status);
    add_config_command(app, status);
    add_agent_command(app, status);
    add_demo_command(app, status);
    add_sim_command(app, status);
    add_modes_command(app, status);
    add_tune_command(app, status);
    add_ablate_command(app, status);
    add_lab_command(app, status);
    add_run_command(app, status);
    add_report_command(app, status);
    add_completion_command(app, status);
    add_version_command(app, status);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? status_good : status_misused;
    } catch (const std::exception& error) {
        return report_failure({via::base::Code::System, error.what()});
    }
    return status;
}
