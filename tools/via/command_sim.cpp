// SPDX-License-Identifier: BSD-3-Clause
// `via sim`: the machines of the papers, simulated.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "command.hpp"
#include "sim/experiment/mnc_experiment.hpp"
#include "sim/experiment/via_experiment.hpp"
#include "sim/firmware/rhinet.hpp"
#include "sim/firmware/send_study.hpp"
#include "sim/parameters/catalogue.hpp"
#include "sim_commands.hpp"
#include "sim_options.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using base::Code;
using base::Result;

struct SendOptions {
    std::string machine = "p2-300";
    std::string nic = "lanai4";
    std::optional<std::string> type;
    std::uint64_t bytes = 4096;
    std::optional<double> clock;
    std::string burst;
    bool json = false;
};

nlohmann::json totals(sim::Time total, std::uint64_t bytes) {
    const double microseconds = sim::in_microseconds(total);
    return {{"bytes", bytes},
            {"total_us", microseconds},
            {"mb_per_s", static_cast<double>(bytes) / microseconds}};
}

void print_totals(const nlohmann::json& result) {
    fmt::print("{} bytes in {:.3f} µs: {:.3f} MB/s\n", result["bytes"].get<std::uint64_t>(),
               result["total_us"].get<double>(), result["mb_per_s"].get<double>());
}

Result<nlohmann::json> send_by_lanai(const SendOptions& options) {
    using Answer = Result<nlohmann::json>;
    const std::string name = options.type.value_or("User");
    const auto type = sim::send_type(name);
    if (!type)
        return Answer(Code::InvalidArgument, "there is no send type '" + name + "'; there are " +
                                                 std::string(sim::send_type_names));
    if (options.clock || !options.burst.empty())
        return Answer(Code::InvalidArgument, "--clock and --burst are for rhinet1");
    auto machine = sim::load_parameters(options.machine, "machine", sim::machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = sim::load_parameters(options.nic, "nic", sim::nic_parameters());
    if (!nic) return std::move(nic).error();
    auto firmware = sim::load_parameters("study", "firmware", sim::study_firmware_parameters());
    if (!firmware) return std::move(firmware).error();
    auto sent =
        sim::simulate_send(machine.value(), nic.value(), firmware.value(), *type, options.bytes);
    if (!sent) return std::move(sent).error();
    const sim::SendBreakdown& parts = sent.value();
    nlohmann::json result = totals(parts.total(), options.bytes);
    result["type"] = name;
    result["host"] = {{"copy_structure_us", sim::in_microseconds(parts.copy_structure)},
                      {"copy_data_us", sim::in_microseconds(parts.copy_data)},
                      {"start_us", sim::in_microseconds(parts.start)},
                      {"wait_us", sim::in_microseconds(parts.wait)}};
    return result;
}

void print_host_breakdown(const nlohmann::json& host) {
    TextTable table;
    for (const char* title : {"copy structure µs", "copy data µs", "start µs", "wait µs"})
        table.add_column(title);
    table.add_row({fmt::format("{:.3f}", host["copy_structure_us"].get<double>()),
                   fmt::format("{:.3f}", host["copy_data_us"].get<double>()),
                   fmt::format("{:.3f}", host["start_us"].get<double>()),
                   fmt::format("{:.3f}", host["wait_us"].get<double>())});
    fmt::print("\n{}", table.draw());
}

Result<nlohmann::json> send_by_rhinet(const SendOptions& options) {
    using Answer = Result<nlohmann::json>;
    if (options.type)
        return Answer(Code::InvalidArgument,
                      "--type is for lanai4; rhinet1 does everything in hardware");
    auto machine = sim::load_parameters(options.machine, "machine", sim::machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = sim::load_parameters(options.nic, "nic", sim::rhinet_parameters());
    if (!nic) return std::move(nic).error();
    // The faster version was planned together with long bursts.
    auto bursts = sim::Bursts::Short;
    if (options.clock) {
        if (*options.clock < 1 || *options.clock > 1000)
            return Answer(
                Code::InvalidArgument,
                fmt::format("--clock is {} MHz; it must be from 1 to 1000", *options.clock));
        if (*options.clock > nic.value().clock) bursts = sim::Bursts::Unbroken;
        nic.value().clock = *options.clock;
    }
    if (options.burst == "16")
        bursts = sim::Bursts::Short;
    else if (options.burst == "long")
        bursts = sim::Bursts::Unbroken;
    else if (!options.burst.empty())
        return Answer(Code::InvalidArgument,
                      "--burst is '" + options.burst + "'; it must be 16 or long");
    auto sent = sim::simulate_rhinet_send(machine.value(), nic.value(), bursts, options.bytes);
    if (!sent) return std::move(sent).error();
    nlohmann::json result = totals(sent.value().total, options.bytes);
    result["clock_mhz"] = nic.value().clock;
    result["burst"] = bursts == sim::Bursts::Short ? "16" : "long";
    result["stages"] = nlohmann::json::array();
    for (const sim::RhinetStage& stage : sent.value().stages)
        result["stages"].push_back({{"stage", stage.name},
                                    {"begin_us", sim::in_microseconds(stage.begin)},
                                    {"us", sim::in_microseconds(stage.end - stage.begin)},
                                    {"overlapped", !stage.on_the_path}});
    return result;
}

void print_stages(const nlohmann::json& stages) {
    TextTable table;
    table.add_column("stage", Align::Left);
    table.add_column("begins at µs");
    table.add_column("takes µs");
    table.add_column("", Align::Left);
    for (const nlohmann::json& stage : stages)
        table.add_row({stage["stage"].get<std::string>(),
                       fmt::format("{:.3f}", stage["begin_us"].get<double>()),
                       fmt::format("{:.3f}", stage["us"].get<double>()),
                       stage["overlapped"].get<bool>() ? "beside others" : ""});
    fmt::print("\n{}", table.draw());
}

int run_send(const SendOptions& options) {
    if (const auto sound = check_bytes(options.bytes, 1U << 30); !sound)
        return report_failure(sound.error());
    const bool rhinet = options.nic == "rhinet1";
    const auto result = rhinet ? send_by_rhinet(options) : send_by_lanai(options);
    if (!result) return report_failure(result.error());
    if (options.json) {
        print_json(result.value());
        return status_good;
    }
    print_totals(result.value());
    if (rhinet)
        print_stages(result.value()["stages"]);
    else
        print_host_breakdown(result.value()["host"]);
    return status_good;
}

void add_send_command(CLI::App& sim, int& status) {
    auto options = std::make_shared<SendOptions>();
    CLI::App* command =
        sim.add_subcommand("send", "One send, and where its time goes (the mechanisms study)");
    command->add_option("--machine", options->machine, "The host: its name, or a file's path")
        ->capture_default_str();
    command->add_option("--nic", options->nic, "lanai4 or rhinet1, or a file's path")
        ->capture_default_str();
    command->add_option(
        "--type", options->type,
        "lanai4: who gives the NIC what: " + std::string(sim::send_type_names) + " (default User)");
    command->add_option("--bytes", options->bytes, "The message's length")->capture_default_str();
    command->add_option("--clock", options->clock, "rhinet1: its logic's clock in MHz (16 or 33)");
    command->add_option("--burst", options->burst,
                        "rhinet1: 16 (bytes) or long; default: 16 at 16 MHz, long above");
    command->add_flag("--json", options->json, "As JSON");
    command->callback([options, &status] { status = run_send(*options); });
}

// ---- two hosts ----------------------------------------------------------------------------------

/// Several links and policies are MNC's.
Result<void> refuse_links(const StreamOptions& options) {
    if (options.links.value_or(1) == 1 && options.policy.empty()) return {};
    return Result<void>(Code::InvalidArgument,
                        "--links and --policy are for --firmware mnc and gm");
}

nlohmann::json about(const StreamOptions& options) {
    return {{"machine", options.machine},
            {"nic", options.nic},
            {"firmware", options.firmware},
            {"bytes", options.bytes}};
}

/// As many as Berkeley VIA's program sends, or fewer where they are long.
std::uint64_t messages_of(std::uint64_t bytes) {
    constexpr std::uint64_t most_bytes = 256U << 20;
    return std::clamp<std::uint64_t>(most_bytes / bytes, 20, 2000);
}

Result<double> window_rate(const StreamOptions& options) {
    if (uses_mnc(options)) {
        const auto system = load_mnc(options);
        if (!system) return system.error();
        return sim::simulate_mnc_window(system.value(), options.bytes, messages_of(options.bytes));
    }
    if (const auto refused = refuse_links(options); !refused) return refused.error();
    const auto system = load_system(options);
    if (!system) return system.error();
    return sim::simulate_window(system.value(), options.bytes, messages_of(options.bytes));
}

Result<double> one_way_time(const StreamOptions& options) {
    if (uses_mnc(options)) {
        const auto system = load_mnc(options);
        if (!system) return system.error();
        return sim::simulate_mnc_pingpong(system.value(), options.bytes);
    }
    if (const auto refused = refuse_links(options); !refused) return refused.error();
    const auto system = load_system(options);
    if (!system) return system.error();
    return sim::simulate_pingpong(system.value(), options.bytes);
}

int run_window(const StreamOptions& options) {
    const auto rate = window_rate(options);
    if (!rate) return report_failure(rate.error());
    nlohmann::json result = about(options);
    result["mb_per_s"] = rate.value();
    result["messages_per_s"] = rate.value() * 1e6 / static_cast<double>(options.bytes);
    if (options.json)
        print_json(result);
    else
        fmt::print("{} on {} in {}: a stream of messages of {} bytes, {:.1f} MB/s\n",
                   options.firmware, options.nic, options.machine, options.bytes, rate.value());
    return status_good;
}

int run_pingpong(const StreamOptions& options) {
    const auto one_way = one_way_time(options);
    if (!one_way) return report_failure(one_way.error());
    nlohmann::json result = about(options);
    result["one_way_us"] = one_way.value();
    if (options.json)
        print_json(result);
    else
        fmt::print("{} on {} in {}: {} bytes one way in {:.2f} µs\n", options.firmware, options.nic,
                   options.machine, options.bytes, one_way.value());
    return status_good;
}

struct FlowsOptions : StreamOptions {
    std::string flows = "same";
};

int run_flows(const FlowsOptions& options) {
    if (options.flows != "same" && options.flows != "opposite")
        return report_failure({Code::InvalidArgument,
                               "--flows is '" + options.flows + "'; it must be same or opposite"});
    const auto system = load_system(options);
    if (!system) return report_failure(system.error());
    const std::uint64_t messages = messages_of(options.bytes);
    const auto single = sim::simulate_window(system.value(), options.bytes, messages);
    if (!single) return report_failure(single.error());
    const auto both = sim::simulate_flows(
        system.value(), options.flows == "same" ? sim::Flows::Same : sim::Flows::Opposite,
        options.bytes, messages);
    if (!both) return report_failure(both.error());
    const auto& rates = both.value();
    nlohmann::json result = about(options);
    result["flows"] = options.flows;
    result["single_mb_per_s"] = single.value();
    result["mb_per_s"] = rates;
    result["share"] = {rates[0] / single.value(), rates[1] / single.value()};
    if (options.json)
        print_json(result);
    else
        fmt::print(
            "{} on {} in {}, messages of {} bytes: one flow {:.1f} MB/s; two in {}: {:.1f} and "
            "{:.1f} MB/s, {:.0f} % and {:.0f} % of that\n",
            options.firmware, options.nic, options.machine, options.bytes, single.value(),
            options.flows == "same" ? "the same direction" : "opposite directions", rates[0],
            rates[1], 100 * rates[0] / single.value(), 100 * rates[1] / single.value());
    return status_good;
}

void add_flows_command(CLI::App& sim, int& status) {
    auto options = std::make_shared<FlowsOptions>();
    options->machine = "xeon-700";
    options->firmware = "gm";
    CLI::App* command = sim.add_subcommand("flows", "Two streams at once over one link");
    add_stream_options(*command, *options);
    command->add_option("--flows", options->flows, "same or opposite (directions)")
        ->capture_default_str();
    command->callback([options, &status] { status = run_flows(*options); });
}

void add_stream_command(CLI::App& sim, int& status, const char* name, const char* meaning,
                        int (*run)(const StreamOptions&)) {
    auto options = std::make_shared<StreamOptions>();
    CLI::App* command = sim.add_subcommand(name, meaning);
    add_stream_options(*command, *options);
    command->add_option("--links", options->links, "mnc: how many links (default 2)");
    command->add_option("--policy", options->policy, "mnc: static, oneway or dynamic (default)");
    command->callback([options, run, &status] { status = run(*options); });
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("sim", "Run the papers' machines again, simulated");
    command->require_subcommand(1);
    add_send_command(*command, status);
    add_stream_command(*command, status, "window", "A stream of messages between two hosts",
                       run_window);
    add_stream_command(*command, status, "pingpong", "A message there and back", run_pingpong);
    add_flows_command(*command, status);
    add_sim_reproduce_command(*command, status);
    add_sim_trace_command(*command, status);
    add_sim_ablate_command(*command, status);
    add_sim_ring_command(*command, status);
}

}  // namespace via::tool
