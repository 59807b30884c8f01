// SPDX-License-Identifier: BSD-3-Clause
// The commands of `via`, one file each. Each adds itself to the command line; what it returns as
// the program's exit status goes to `status`: 0 good, 1 failed, 2 not understood.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

#include "base/result.hpp"

namespace CLI {
class App;
}

namespace via::tool {

inline constexpr int status_good = 0;
inline constexpr int status_failed = 1;
inline constexpr int status_misused = 2;

void add_pingpong_command(CLI::App& app, int& status);
void add_window_command(CLI::App& app, int& status);
void add_info_command(CLI::App& app, int& status);
void add_config_command(CLI::App& app, int& status);
void add_stat_command(CLI::App& app, int& status);
void add_protocols_command(CLI::App& app, int& status);
void add_links_command(CLI::App& app, int& status);
void add_agent_command(CLI::App& app, int& status);
void add_demo_command(CLI::App& app, int& status);
void add_sim_command(CLI::App& app, int& status);
void add_modes_command(CLI::App& app, int& status);
void add_lab_command(CLI::App& app, int& status);
void add_run_command(CLI::App& app, int& status);
void add_ablate_command(CLI::App& app, int& status);
void add_web_command(CLI::App& app, int& status);
void add_tune_command(CLI::App& app, int& status);
void add_report_command(CLI::App& app, int& status);
void add_completion_command(CLI::App& app, int& status);
void add_version_command(CLI::App& app, int& status);

/// Says it on standard error and returns status_failed.
[[nodiscard]] int report_failure(const base::Error& error);
/// Indented, on standard output; text that is no UTF-8 is repaired.
void print_json(const nlohmann::json& value);
/// One line, for streams of values.
void print_json_line(const nlohmann::json& value);
[[nodiscard]] std::string_view version_text();

}  // namespace via::tool
