// SPDX-License-Identifier: BSD-3-Clause
// `via sim trace`: what each resource did when, as a table, a picture and a file for Perfetto.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "chart.hpp"
#include "command.hpp"
#include "gantt.hpp"
#include "result_files.hpp"
#include "sim/firmware/send_study.hpp"
#include "sim/parameters/catalogue.hpp"
#include "sim_commands.hpp"
#include "sim_options.hpp"
#include "text_table.hpp"
#include "timeline.hpp"

namespace via::tool {
namespace {

using base::Code;
using base::Result;

struct TraceOptions : StreamOptions {
    std::uint64_t messages = 4;
    std::string type;  ///< of the mechanisms study; empty: a stream between two hosts
    std::string results = "sim-results";
};

constexpr std::uint64_t most_messages = 100;
constexpr std::uint64_t most_bytes = 1U << 20;

Result<void> trace_send(const TraceOptions& options, sim::Trace& trace) {
    const auto type = sim::send_type(options.type);
    if (!type)
        return {Code::InvalidArgument, "there is no send type '" + options.type + "'; there are " +
                                           std::string(sim::send_type_names)};
    if (options.clock) return {Code::InvalidArgument, "--clock is not for --type"};
    auto machine = sim::load_parameters(options.machine, "machine", sim::machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = sim::load_parameters(options.nic, "nic", sim::nic_parameters());
    if (!nic) return std::move(nic).error();
    auto firmware = sim::load_parameters("study", "firmware", sim::study_firmware_parameters());
    if (!firmware) return std::move(firmware).error();
    const auto sent = sim::simulate_send(machine.value(), nic.value(), firmware.value(), *type,
                                         options.bytes, &trace);
    if (!sent) return sent.error();
    return {};
}

Result<void> trace_stream(const TraceOptions& options, sim::Trace& trace) {
    if (uses_mnc(options))
        return {Code::InvalidArgument, "mnc is not traced; --firmware gm shows one of its links"};
    if (options.messages < 1 || options.messages > most_messages)
        return {Code::InvalidArgument, fmt::format("--messages is {}; it must be from 1 to {}",
                                                   options.messages, most_messages)};
    const auto system = load_system(options);
    if (!system) return system.error();
    const auto rate = sim::simulate_window(system.value(), options.bytes, options.messages, &trace);
    if (!rate) return rate.error();
    return {};
}

std::string title_of(const TraceOptions& options) {
    if (!options.type.empty())
        return fmt::format("{} on {} in {}, {} bytes", options.type, options.nic, options.machine,
                           options.bytes);
    return fmt::format("{} on {} in {}, {} message{} of {} bytes", options.firmware, options.nic,
                       options.machine, options.messages, options.messages == 1 ? "" : "s",
                       options.bytes);
}

nlohmann::json trace_to_json(const TraceOptions& options, const Timeline& timeline) {
    nlohmann::json report = timeline_json(timeline);
    report.update({{"machine", options.machine},
                   {"nic", options.nic},
                   {"bytes", options.bytes},
                   {"results", options.results}});
    return report;
}

std::string draw_stages(const Timeline& timeline) {
    TextTable table;
    table.add_column("message");
    table.add_column("resource", Align::Left);
    table.add_column("stage", Align::Left);
    table.add_column("begins at µs");
    table.add_column("takes µs");
    for (const TimelineBar& bar : timeline.bars) {
        const std::string& lane = timeline.lanes[bar.lane].name;
        // The engines say the same as the bus, without the turns that they take there.
        if (bar.message != 0 && lane.ends_with("bus")) continue;
        table.add_row({bar.message == 0 ? "" : std::to_string(bar.message), lane, bar.label,
                       fmt::format("{:.3f}", sim::in_microseconds(bar.begin)),
                       fmt::format("{:.3f}", sim::in_microseconds(bar.end - bar.begin))});
    }
    return table.draw();
}

std::string draw_resources(const Timeline& timeline) {
    const double total = sim::in_microseconds(timeline.end());
    TextTable table;
    table.add_column("resource", Align::Left);
    table.add_column("busy µs");
    table.add_column("busy %");
    for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
        const double busy = sim::in_microseconds(timeline.busy(lane));
        table.add_row({timeline.lanes[lane].name, fmt::format("{:.3f}", busy),
                       fmt::format("{:.0f}", 100 * busy / total)});
    }
    return table.draw();
}

/// NotFound: there is no gnuplot, but all except the PNG is there.
Result<void> write_files(const TraceOptions& options, const Timeline& timeline) {
    if (auto created = create_folder(options.results); !created) return created;
    const std::string base_path = (std::filesystem::path(options.results) / "trace").string();
    const Drawing drawing = draw_gantt(timeline, title_of(options));
    if (auto written = write_text_file(base_path + ".svg", drawing.svg()); !written) return written;
    if (auto written = write_text_file(base_path + ".json", trace_events(timeline).dump() + "\n");
        !written)
        return written;
    return draw_script(drawing.gnuplot_script(base_path + ".png"), base_path);
}

int run_trace(const TraceOptions& options) {
    if (const auto sound = check_bytes(options.bytes, most_bytes); !sound)
        return report_failure(sound.error());
    sim::Trace trace;
    const auto traced =
        options.type.empty() ? trace_stream(options, trace) : trace_send(options, trace);
    if (!traced) return report_failure(traced.error());
    const Timeline timeline = timeline_of(trace);
    const auto written = write_files(options, timeline);
    const bool no_picture = !written && written.error().code == Code::NotFound;
    if (!written && !no_picture) return report_failure(written.error());
    if (options.json) {
        nlohmann::json report = trace_to_json(options, timeline);
        report["png"] = !no_picture;
        print_json(report);
        return status_good;
    }
    fmt::print("{}: {:.3f} µs\n\n{}\n{}\n", title_of(options), sim::in_microseconds(timeline.end()),
               draw_stages(timeline), draw_resources(timeline));
    fmt::print("Picture: {0}/trace.svg{1}; for ui.perfetto.dev: {0}/trace.json\n", options.results,
               no_picture ? " (no PNG: " + written.error().sentence + ")" : " and trace.png");
    return status_good;
}

}  // namespace

void add_sim_trace_command(CLI::App& sim, int& status) {
    auto options = std::make_shared<TraceOptions>();
    options->machine = "p3-733";
    options->nic = "lanai4";
    CLI::App* command = sim.add_subcommand("trace", "What each resource did when, as a picture");
    add_stream_options(*command, *options);
    command->add_option("--messages", options->messages, "How many, one behind the other")
        ->capture_default_str();
    command->add_option(
        "--type", options->type,
        "One send of the mechanisms study on p2-300 instead: " + std::string(sim::send_type_names));
    command->add_option("--results", options->results, "Folder for the files")
        ->capture_default_str();
    command->callback([options, command, &status] {
        if (!options->type.empty()) {
            if (command->count("--firmware") > 0 || command->count("--messages") > 0) {
                status = report_failure({Code::InvalidArgument,
                                         "--type is one send with a firmware of its own; leave out "
                                         "--firmware and --messages"});
                return;
            }
            if (command->count("--machine") == 0) options->machine = "p2-300";
        }
        status = run_trace(*options);
    });
}

}  // namespace via::tool
