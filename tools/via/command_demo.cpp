// SPDX-License-Identifier: BSD-3-Clause
// `via demo`: what this machine can do, beside what Viaduct makes of it, in less than a minute.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bare/bare_limits.hpp"
#include "command.hpp"
#include "demo_report.hpp"
#include "information.hpp"
#include "measurement.hpp"
#include "size_list.hpp"
#include "terminal.hpp"

namespace via::tool {
namespace {

using base::Result;

struct DemoOptions {
    std::string device = "shm0";
    std::string results = "./results";
    std::string sizes = "8:4m";
    double seconds = 0.2;
    std::optional<std::string> cpus;
    bool json = false;
};

/// What people see while it runs; with --json nothing.
void say(const DemoOptions& options, std::string_view text) {
    if (options.json) return;
    fmt::print("{}", text);
    fflush(stdout);
}

Result<void> measure_bare(DemoReport& report, const std::vector<std::uint64_t>& sizes,
                          const bare::CorePair& cores) {
    bare::PingPongOptions line;
    line.cores = cores;
    line.samples = 500;
    const auto hops = bare::one_line_ping_pong(line);
    if (!hops) return hops.error();
    report.line_us = bare::median(hops.value()) / 1000;
    for (const std::uint64_t bytes : sizes) {
        bare::CopyOptions copy;
        copy.core = cores.first;
        copy.bytes = bytes;
        copy.buffers = default_buffers(bytes, default_window(bytes));
        copy.samples = 9;
        copy.bytes_per_sample = std::clamp<std::uint64_t>(bytes * 4000, 1 << 20, 16 << 20);
        const auto rates = bare::copy_rate(copy);
        if (!rates) return rates.error();
        DemoRow& row = report.rows[bytes];
        row.copy_mb_per_s = bare::median(rates.value()) / 1e6;
        row.bare_us = report.line_us + static_cast<double>(bytes) / row.copy_mb_per_s;
    }
    return {};
}

SessionPlan plan_for(const MeasurementOptions& options, const std::vector<std::uint64_t>& sizes,
                     double seconds, SessionPlan plan) {
    plan.tests.clear();
    // Size by size, so that what stands in one row was measured within a second.
    for (const std::uint64_t bytes : sizes) {
        for (const Program program : {Program::Pingpong, Program::Window}) {
            for (const MemoryKind memory : {MemoryKind::Heap, MemoryKind::Kmem}) {
                TestPlan test;
                test.terms.program = program;
                test.terms.memory = memory;
                test.terms.bytes = bytes;
                if (program == Program::Window) {
                    test.terms.window = default_window(bytes);
                    test.terms.buffers = default_buffers(bytes, test.terms.window);
                }
                test.repetitions = options.repetitions.value_or(test.repetitions);
                test.seconds = seconds;
                plan.tests.push_back(test);
            }
        }
    }
    return plan;
}

Result<void> run_demo(const DemoOptions& options) {
    say(options, "Looking at the machine ...\n\n");
    const nlohmann::json information = collect_information();
    say(options, describe_information(information, true));
    if (information["devices"].empty())
        return {base::Code::NotFound, "no device can be opened; via info says more"};

    auto sizes = parse_size_list(options.sizes);
    if (!sizes) return std::move(sizes).error();
    MeasurementOptions measurement;
    measurement.device = options.device;
    measurement.cpus = options.cpus;
    measurement.repetitions = 3;
    auto cpus = cpus_for(measurement);
    if (!cpus) return std::move(cpus).error();
    auto plan = make_plan(measurement, Program::Pingpong);
    if (!plan) return std::move(plan).error();

    DemoReport report;
    bare::CorePair cores;
    cores.first = cpus.value().first.value_or(0);
    cores.second = cpus.value().second.value_or(cores.first);
    say(options,
        "\nMeasuring the bare machine: one cache line between two cores, memcpy by one ...\n");
    if (cores.first != cores.second) {
        if (auto measured = measure_bare(report, sizes.value(), cores); !measured) return measured;
    } else {
        say(options, "  left out, because there is only one core\n");
    }

    const SessionPlan whole = plan_for(measurement, sizes.value(), options.seconds, plan.value());
    say(options, fmt::format("Measuring pingpong and window on {}, {} sizes, {} ...\n",
                             options.device, sizes.value().size(), describe(cpus.value())));
    auto measured = measure_here(whole, cpus.value(),
                                 [&](const nlohmann::json& result) { add_result(report, result); });
    if (!measured) return measured;

    if (options.json) print_json(to_json(report));
    say(options, "\n" + draw_table(report));
    say(options,
        fmt::format("\nbare: a cache line goes from core to core in {:.3f} µs, then one memcpy of "
                    "the message.\nx bare: the faster of heap and kmem beside that.\n\n",
                    report.line_us));
    const bool colour = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nullptr;
    const std::size_t columns = std::clamp<std::size_t>(Screen::size().columns, 40, 100) - 14;
    say(options, draw_plots(report, colour, columns));

    const auto written = write_files(report, information, options.results);
    if (written)
        say(options, fmt::format("\nThe same as a picture: {}/demo.png (numbers: demo.json)\n",
                                 options.results));
    else if (written.error().code == base::Code::NotFound)
        say(options, fmt::format("\nNo picture: {}. The numbers are in {}/demo.json.\n",
                                 written.error().sentence, options.results));
    else
        return written;
    return {};
}

}  // namespace

void add_demo_command(CLI::App& app, int& status) {
    auto options = std::make_shared<DemoOptions>();
    CLI::App* command = app.add_subcommand(
        "demo", "Measure this machine: latency and bandwidth beside its bare limits, with a plot");
    command->add_option("--device", options->device, "The NIC to measure")->capture_default_str();
    command->add_option("--results", options->results, "Folder for demo.png and the numbers")
        ->capture_default_str();
    command->add_option("--sizes,--bytes", options->sizes, "Message sizes")->capture_default_str();
    command->add_option("--seconds", options->seconds, "Time for each single measurement")
        ->check(CLI::Range(0.001, 60.0))
        ->capture_default_str();
    command->add_option("--cpus", options->cpus, "Processors to use, such as 0,1");
    command->add_flag("--json", options->json, "Print JSON instead of table and plots");
    command->callback([options, &status] {
        const auto done = run_demo(*options);
        status = done ? status_good : report_failure(done.error());
    });
}

}  // namespace via::tool
