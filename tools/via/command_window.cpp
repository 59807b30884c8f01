// SPDX-License-Identifier: BSD-3-Clause
// `via window`: bandwidth and rate of a stream of messages.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "measurement.hpp"
#include "size_list.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

void print_streams(const MeasurementOptions& options, const std::vector<nlohmann::json>& results) {
    fmt::print("{}\n\n", headline(options, Program::Window));
    TextTable table;
    for (const char* title : {"bytes", "MB/s", "lowest", "highest", "messages/s", "CPU s/GB",
                              "window", "buffers", "messages"})
        table.add_column(title);
    const auto whole = [](const nlohmann::json& value) {
        return fmt::format("{:.1f}", value.get<double>());
    };
    for (const nlohmann::json& result : results)
        table.add_row({format_size(result["bytes"].get<std::uint64_t>()), whole(result["mb_per_s"]),
                       whole(result["min_mb_per_s"]), whole(result["max_mb_per_s"]),
                       fmt::format("{:.0f}", result["messages_per_s"].get<double>()),
                       result.contains("cpu_s_per_gb")
                           ? fmt::format("{:.2f}", result["cpu_s_per_gb"].get<double>())
                           : "–",
                       fmt::format("{}", result["window"].get<std::uint64_t>()),
                       fmt::format("{}", result["buffers"].get<std::uint64_t>()),
                       fmt::format("{} x {}", result["repetitions"].get<std::uint64_t>(),
                                   result["iterations"].get<std::uint64_t>())});
    fmt::print(
        "{}\nMB/s (1 MB = 1,000,000 bytes) and messages/s are medians of the repetitions, each "
        "timed until\nthe receiver has confirmed the last message. CPU is the processor time of "
        "both sides.\n",
        table.draw());
}

int run_window(const MeasurementOptions& options) {
    const auto results = measure(options, Program::Window);
    if (!results) return report_failure(results.error());
    if (options.server) return status_good;
    if (options.json)
        print_json(joined(results.value()));
    else
        print_streams(options, results.value());
    return status_good;
}

}  // namespace

void add_window_command(CLI::App& app, int& status) {
    auto options = std::make_shared<MeasurementOptions>();
    CLI::App* command = app.add_subcommand("window", "Measure a back-to-back stream of messages");
    add_measurement_options(*command, Program::Window, *options);
    command->callback([options, &status] { status = run_window(*options); });
}

}  // namespace via::tool
