// SPDX-License-Identifier: BSD-3-Clause
// `via ablate`: takes one mechanism of the papers at a time away from the real stack, and measures
// what that costs on this machine. Each is measured with and without in turn, by programs that know
// nothing of it.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "ablation.hpp"
#include "bare/bare_limits.hpp"
#include "child_program.hpp"
#include "command.hpp"
#include "lab/lab.hpp"
#include "lab/quantities.hpp"
#include "own_libraries.hpp"
#include "probes.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using base::Result;

constexpr std::size_t usual_ablation_pairs = 7;
constexpr std::size_t quick_ablation_pairs = 3;

struct AblateOptions {
    std::vector<std::string> only;
    std::optional<std::size_t> pairs;
    bool quick = false;
    bool list = false;
    bool json = false;
};

/// One that was measured, or the reason why not.
struct AblationRow {
    const MechanismSwitch* mechanism;
    AblationValues values;
    std::string reason;
};

base::Deadline patience() {
    return base::Deadline::after(60 * 1'000'000'000LL);
}

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// `via pingpong` or `via window`, of this very program.
Result<double> measure_vipl(const MechanismSwitch& mechanism, bool with, const std::string& lab) {
    child::Command command;
    command.arguments = {"/proc/self/exe",
                         mechanism.yardstick == Yardstick::OneWay ? "pingpong" : "window", "--json",
                         "--seconds", "0.4"};
    command.arguments = joined(std::move(command.arguments), mechanism.arguments);
    command.arguments = joined(std::move(command.arguments),
                               with ? mechanism.with_arguments : mechanism.without_arguments);
    if (!lab.empty()) command.arguments.insert(command.arguments.end(), {"--lab", lab});
    command.environment = mechanism.settings;
    if (!with)
        command.environment = joined(std::move(command.environment), mechanism.without_settings);
    auto output = child::run(command, patience());
    if (!output) return std::move(output).error();
    return measured_figure(mechanism.yardstick, output.value());
}

/// fi_pingpong, which is libfabric's own: a server and a client on loopback.
Result<double> measure_fabric(const MechanismSwitch& mechanism, bool with,
                              const bare::CorePair& cores) {
    const std::string program = child::find_program("fi_pingpong");
    if (program.empty())
        return {base::Code::NotFound, "fi_pingpong is not installed (Debian: libfabric-bin)"};
    auto folder = find_provider_folder();
    if (!folder) return std::move(folder).error();
    child::Command server;
    server.arguments = joined(
        {program, "-p", "via", "-e", "rdm"},
        joined(mechanism.arguments, with ? mechanism.with_arguments : mechanism.without_arguments));
    server.environment =
        joined({"FI_PROVIDER=via", "FI_PROVIDER_PATH=" + folder.value()}, mechanism.settings);
    if (!with)
        server.environment = joined(std::move(server.environment), mechanism.without_settings);
    child::Command client = server;
    server.core = cores.first;
    client.core = cores.second;
    client.arguments.emplace_back("127.0.0.1");
    auto waiting = child::Process::start(server);
    if (!waiting) return std::move(waiting).error();
    // Nobody tells when it listens, so the client comes again until it does.
    const base::Deadline deadline = patience();
    for (;;) {
        auto output = child::run(client, deadline);
        if (output) {
            auto served = waiting.value().finish(deadline);
            if (!served) return std::move(served).error();
            return measured_figure(mechanism.yardstick, output.value());
        }
        if (deadline.expired() || !waiting.value().running()) return std::move(output).error();
        ::usleep(50'000);
    }
}

/// A lab for the measurement, with its links as slow as they should be.
Result<lab::Lab> lab_of(const AblationPlace& place) {
    lab::LabOptions options;
    options.name = fmt::format("ablate{}", ::getpid());
    options.links = static_cast<unsigned>(place.link_rates.size());
    auto made = lab::Lab::up(options);
    if (!made) return made;
    for (unsigned link = 0; link < options.links; ++link) {
        if (place.link_rates[link] == "off") continue;
        auto rate = lab::parse_rate(place.link_rates[link]);
        if (!rate) return std::move(rate).error();
        if (auto set = made.value().link(link).rate(rate.value()); !set)
            return std::move(set).error();
    }
    return made;
}

/// On a terminal only, and gone with the next one.
void say_where(std::string_view text) {
    if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K{}", text);
}

AblationRow measure(const MechanismSwitch& mechanism, std::size_t pairs,
                    const bare::CorePair& cores) {
    AblationRow row{&mechanism, {}, {}};
    std::optional<lab::Lab> lab;
    if (mechanism.place.lab()) {
        auto made = lab_of(mechanism.place);
        if (!made) {
            row.reason = made.error().sentence;
            return row;
        }
        lab.emplace(std::move(made).value());
    }
    const std::string name = lab ? lab->options().name : std::string();
    for (std::size_t i = 0; i < pairs; ++i)
        for (const bool with : {i % 2 == 0, i % 2 != 0}) {
            say_where(fmt::format("{}: {} of {}", mechanism.name, i + 1, pairs));
            auto figure = mechanism.yardstick == Yardstick::FabricOneWay
                              ? measure_fabric(mechanism, with, cores)
                              : measure_vipl(mechanism, with, name);
            if (!figure) {
                row.reason = figure.error().sentence;
                row.values = {};
                return row;
            }
            (with ? row.values.with : row.values.without).push_back(figure.value());
        }
    return row;
}

std::string settings_text(const MechanismSwitch& mechanism) {
    std::string text;
    for (const std::string& setting : mechanism.without_settings)
        text += (text.empty() ? "" : " ") + setting;
    return text;
}

std::string table_text(const std::vector<AblationRow>& rows) {
    TextTable table;
    table.add_column("mechanism", Align::Left);
    table.add_column("paper", Align::Left);
    table.add_column("measured", Align::Left);
    table.add_column("with");
    table.add_column("without");
    table.add_column("", Align::Left);
    table.add_column("worth");
    table.add_column("min–max");
    table.add_column("off by", Align::Left);
    for (const AblationRow& row : rows) {
        const MechanismSwitch& mechanism = *row.mechanism;
        if (!row.reason.empty()) continue;
        const AblationVerdict verdict = judge(mechanism.yardstick, row.values);
        const int digits = mechanism.yardstick == Yardstick::Stream ? 0 : 2;
        table.add_row({std::string(mechanism.mechanism), std::string(mechanism.paper),
                       std::string(mechanism.measure), fmt::format("{:.{}f}", verdict.with, digits),
                       fmt::format("{:.{}f}", verdict.without, digits),
                       std::string(figure_unit(mechanism.yardstick)),
                       verdict.clear ? fmt::format("{:.2f} ×", verdict.worth)
                                     : fmt::format("{:.2f} × ?", verdict.worth),
                       fmt::format("{:.2f}–{:.2f}", verdict.lowest, verdict.highest),
                       settings_text(mechanism)});
    }
    std::string text = table.draw();
    for (const AblationRow& row : rows)
        if (!row.reason.empty())
            text += fmt::format("{}: not measured: {}\n", row.mechanism->name, row.reason);
    return text;
}

Result<std::vector<const MechanismSwitch*>> wanted_switches(const AblateOptions& options) {
    std::vector<const MechanismSwitch*> wanted;
    std::string names;
    for (const MechanismSwitch& mechanism : mechanism_switches()) {
        names += (names.empty() ? "" : ", ") + std::string(mechanism.name);
        if (options.only.empty() || std::find(options.only.begin(), options.only.end(),
                                              mechanism.name) != options.only.end())
            wanted.push_back(&mechanism);
    }
    for (const std::string& name : options.only)
        if (std::none_of(wanted.begin(), wanted.end(),
                         [&](const MechanismSwitch* each) { return each->name == name; }))
            return {
                base::Code::InvalidArgument,
                fmt::format("there is no mechanism '{}' to switch off; there are {}", name, names)};
    return wanted;
}

Result<void> run(const AblateOptions& options) {
    auto wanted = wanted_switches(options);
    if (!wanted) return std::move(wanted).error();
    if (options.list) {
        for (const MechanismSwitch* each : wanted.value())
            fmt::print("{:<10} {:<6} {} ({})\n", each->name, each->paper, each->mechanism,
                       settings_text(*each));
        return {};
    }
    auto cores = bare::two_cores();
    if (!cores) return std::move(cores).error();
    const std::size_t pairs =
        options.pairs.value_or(options.quick ? quick_ablation_pairs : usual_ablation_pairs);
    std::vector<AblationRow> rows;
    for (const MechanismSwitch* each : wanted.value())
        rows.push_back(measure(*each, pairs, cores.value()));
    say_where("");
    if (options.json) {
        const Machine machine = describe_machine();
        nlohmann::json all = {
            {"schema", 1},
            {"version", version_text()},
            {"machine", {{"kernel", machine.kernel}, {"processor", machine.processor}}},
            {"pairs", pairs},
            {"mechanisms", nlohmann::json::array()},
            {"not_measured", nlohmann::json::object()}};
        for (const AblationRow& row : rows)
            if (row.reason.empty())
                all["mechanisms"].push_back(to_json(*row.mechanism, row.values));
            else
                all["not_measured"][std::string(row.mechanism->name)] = row.reason;
        print_json(all);
        return {};
    }
    fmt::print(
        "What each mechanism is worth here: with and without it, {} times each in turn.\n"
        "A question mark: some of the pairs said the opposite.\n\n{}",
        pairs, table_text(rows));
    return {};
}

}  // namespace

void add_ablate_command(CLI::App& app, int& status) {
    auto options = std::make_shared<AblateOptions>();
    CLI::App* command = app.add_subcommand(
        "ablate", "Switch each mechanism of the papers off in turn, and measure what that costs");
    command->add_option("--only", options->only, "Only these (see --list)")->delimiter(',');
    command->add_option("--pairs", options->pairs, "How often each way (default: 7, quick 3)")
        ->check(CLI::Range(1U, 1000U));
    command->add_flag("--quick", options->quick, "Fewer pairs");
    command->add_flag("--list", options->list, "Only name them, with the settings that do it");
    command->add_flag("--json", options->json, "Print JSON");
    command->callback([options, &status] {
        const auto done = run(*options);
        status = done ? status_good : report_failure(done.error());
    });
}

}  // namespace via::tool
