// SPDX-License-Identifier: BSD-3-Clause
// `via pingpong`: one-way times.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "histogram.hpp"
#include "measurement.hpp"
#include "size_list.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

void print_round_trips(const MeasurementOptions& options,
                       const std::vector<nlohmann::json>& results) {
    fmt::print("{}\n\n", headline(options, Program::Pingpong));
    TextTable table;
    for (const char* title :
         {"bytes", "one-way µs", "mean", "min", "p90", "p99", "p99.9", "round trips", "batch"})
        table.add_column(title);
    const auto microseconds = [](const nlohmann::json& value) {
        return fmt::format("{:.3f}", value.get<double>());
    };
    for (const nlohmann::json& result : results) {
        const nlohmann::json& percentiles = result["percentiles"];
        table.add_row({format_size(result["bytes"].get<std::uint64_t>()),
                       microseconds(result["one_way_us"]), microseconds(result["mean_us"]),
                       microseconds(result["min_us"]), microseconds(percentiles["p90"]),
                       microseconds(percentiles["p99"]), microseconds(percentiles["p99.9"]),
                       fmt::format("{} x {}", result["repetitions"].get<std::uint64_t>(),
                                   result["iterations"].get<std::uint64_t>()),
                       fmt::format("{}", result["batch"].get<std::uint64_t>())});
    }
    fmt::print("{}\n", table.draw());
    fmt::print(
        "One-way is {}. The clock is read once in a batch of\n"
        "operations, because reading it costs about as much as one; a batch is one sample.\n",
        options.operation == "rdma-read" ? "the median time of a whole read, data included"
                                         : "half the median round trip");
    if (!options.histogram) return;
    for (const nlohmann::json& result : results) {
        std::vector<HistogramBin> bins;
        for (const nlohmann::json& bin : result["histogram"])
            bins.push_back({bin["from_us"].get<double>(), bin["to_us"].get<double>(),
                            bin["count"].get<std::uint64_t>()});
        fmt::print("\n{} bytes:\n{}", result["bytes"].get<std::uint64_t>(),
                   draw_histogram(bins, "µs"));
    }
}

int run_pingpong(const MeasurementOptions& options) {
    const auto results = measure(options, Program::Pingpong);
    if (!results) return report_failure(results.error());
    if (options.server) return status_good;
    if (options.json)
        print_json(joined(results.value()));
    else
        print_round_trips(options, results.value());
    return status_good;
}

}  // namespace

void add_pingpong_command(CLI::App& app, int& status) {
    auto options = std::make_shared<MeasurementOptions>();
    CLI::App* command = app.add_subcommand("pingpong", "Measure one-way times of messages");
    add_measurement_options(*command, Program::Pingpong, *options);
    command->callback([options, &status] { status = run_pingpong(*options); });
}

}  // namespace via::tool
