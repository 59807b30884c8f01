// SPDX-License-Identifier: BSD-3-Clause
#include "result_files.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "supervisor.hpp"

namespace via::tool {

base::Result<void> create_folder(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        return base::system_error(error.value(), fmt::format("creating the folder {}", folder));
    return {};
}

base::Result<void> write_text_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::trunc);
    file << text;
    file.close();
    if (!file) return base::system_error(errno, fmt::format("writing {}", path));
    return {};
}

/// In a supervised process: it may hang, and it may not be there.
base::Result<void> run_gnuplot(const std::string& script_path) {
    bool missing = false;
    SupervisorOptions options;
    options.quiet_limit = 20'000'000'000;
    options.show_progress = false;
    options.on_report = [&](const nlohmann::json& report) {
        missing = missing || report.contains("missing");
    };
    auto outcome = run_sides({{"plotting",
                               {},
                               [&](SideReporter& reporter) -> base::Result<void> {
                                   execlp("gnuplot", "gnuplot", script_path.c_str(),
                                          static_cast<char*>(nullptr));
                                   if (errno == ENOENT) reporter.report({{"missing", true}});
                                   return base::system_error(errno, "starting gnuplot");
                               }}},
                             options);
    if (missing) return {base::Code::NotFound, "gnuplot is not installed (Debian: gnuplot-nox)"};
    return outcome;
}

std::string gnuplot_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char letter : text) {
        quoted += letter;
        if (letter == '\'') quoted += letter;
    }
    return quoted + "'";
}

}  // namespace via::tool
