// SPDX-License-Identifier: BSD-3-Clause
// `via links`: the links of connections between hosts, live, and how they changed; how they are
// chosen.
#include <fmt/format.h>
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.hpp"
#include "connection_links.hpp"
#include "link_policy.hpp"
#include "process_watch.hpp"
#include "readable.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

constexpr double first_look_seconds = 0.5;
constexpr std::size_t changes_on_screen = 16;

struct LinksOptions {
    std::optional<std::int32_t> pid;
    std::optional<double> watch;
    bool json = false;

    [[nodiscard]] std::string who() const { return pid ? std::to_string(*pid) : std::string(); }
};

std::string microseconds(std::uint64_t nanoseconds) {
    return nanoseconds == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(nanoseconds) / 1e3);
}

std::string megabytes(const std::optional<double>& bytes_per_s) {
    return bytes_per_s ? fmt::format("{:.1f}", *bytes_per_s / 1e6) : "";
}

std::string change_time(std::int64_t wall_ns) {
    if (wall_ns < 0) return "?";
    return fmt::format("{}.{:03}", time_text(wall_ns), wall_ns / 1'000'000 % 1000);
}

std::string draw(const ConnectionLinks& connection) {
    TextTable table;
    table.add_column("link", Align::Left);
    table.add_column("state", Align::Left);
    for (const char* title : {"MB/s out", "MB/s in", "share %", "RTT µs", "least", "lost %",
                              "timeouts", "window", "in flight", "can MB/s", "changes"})
        table.add_column(title);
    for (const LinkReport& link : connection.links)
        table.add_row({link.now.text, std::string(link_state_name(link.now.state)),
                       megabytes(link.sent_bytes_per_s), megabytes(link.received_bytes_per_s),
                       fmt::format("{:.1f}", link.share * 100),
                       microseconds(link.now.round_trip_ns),
                       microseconds(link.now.least_round_trip_ns),
                       fmt::format("{:.2f}", link.lost * 100), short_number(link.now.timeouts),
                       short_number(link.now.window_bytes), short_number(link.now.bytes_in_flight),
                       link.now.bytes_per_second == 0
                           ? "-"
                           : megabytes(static_cast<double>(link.now.bytes_per_second)),
                       short_number(link.now.changes)});
    return table.draw("  ");
}

std::string picture(const std::vector<WatchedProcess>& processes, const LinksOptions& options) {
    std::string text;
    for (const WatchedProcess& process : processes) {
        const std::string name =
            fmt::format("process {} {}", process.agent.pid, process.agent.program);
        if (!process.problem.empty()) {
            text += fmt::format("{}: {}\n", name, printable(process.problem));
            continue;
        }
        for (const ConnectionLinks& connection :
             links_of_connections(process.counters, process.before)) {
            text += fmt::format("{}, VI {}{}{}\n{}", name, connection.vi_slot,
                                connection.device.empty() ? "" : " on " + connection.device,
                                connection.policy.empty() ? "" : ", policy " + connection.policy,
                                draw(connection));
        }
        const auto& changes = process.counters.link_changes;
        if (changes.empty()) continue;
        const std::size_t shown =
            options.watch ? std::min(changes.size(), changes_on_screen) : changes.size();
        text += fmt::format("{}, changes of links{}\n", name,
                            shown < changes.size() ? " (the last ones)" : "");
        for (std::size_t i = changes.size() - shown; i < changes.size(); ++i)
            text += fmt::format("  {}  VI {}  {}: {} -> {}\n", change_time(changes[i].wall_ns),
                                changes[i].vi_slot, changes[i].text,
                                link_state_name(changes[i].from), link_state_name(changes[i].to));
    }
    if (!text.empty()) return text;
    if (options.pid && processes.empty())
        return fmt::format("No process {} uses Viaduct here.\n", *options.pid);
    return "No process here has a connection to another host.\n";
}

nlohmann::json as_json(const WatchedProcess& process) {
    nlohmann::json object{{"pid", process.agent.pid}, {"program", process.agent.program}};
    if (!process.problem.empty()) {
        object["problem"] = process.problem;
        return object;
    }
    object.update(links_json(process.counters, process.before));
    return object;
}

nlohmann::json as_json(const std::vector<WatchedProcess>& processes) {
    auto list = nlohmann::json::array();
    for (const WatchedProcess& process : processes)
        list.push_back(as_json(process));
    return {{"agent_running", true}, {"processes", list}};
}

constexpr const char* no_agent_sentence =
    "No kernel agent runs in this host, so no process here has a connection.\n";

/// No agent is an answer as good as any other: nobody uses Viaduct.
int show(const base::Result<std::vector<WatchedProcess>>& processes, const LinksOptions& options) {
    if (!processes && !no_agent(processes.error())) return report_failure(processes.error());
    if (options.json) {
        const nlohmann::json value =
            processes
                ? as_json(processes.value())
                : nlohmann::json{{"agent_running", false}, {"processes", nlohmann::json::array()}};
        if (options.watch)
            print_json_line(value);
        else
            print_json(value);
    } else {
        fmt::print("{}", processes ? picture(processes.value(), options) : no_agent_sentence);
    }
    return options.pid && (!processes || processes.value().empty()) ? status_failed : status_good;
}

int look_once(const LinksOptions& options) {
    ProcessWatch watch(options.who());
    auto processes = watch.look();
    if (processes) {
        sleep_for(first_look_seconds);  // two looks make a rate
        processes = watch.look();
    }
    return show(processes, options);
}

/// For files and pipes: a picture or a line each time, until the reader goes away.
int stream(const LinksOptions& options) {
    ProcessWatch watch(options.who());
    for (;;) {
        const int status = show(watch.look(), options);
        if (!options.json) fmt::print("\n");
        fflush(stdout);
        if (ferror(stdout)) return status_good;
        if (status != status_good) return status;
        sleep_for(*options.watch);
    }
}

int watch_on_screen(const LinksOptions& options) {
    ProcessWatch watch(options.who());
    Screen screen;
    for (;;) {
        const auto processes = watch.look();
        std::string text = fmt::format("via links: every {:g} s; q ends\n\n", *options.watch);
        if (processes)
            text += picture(processes.value(), options);
        else
            text +=
                no_agent(processes.error()) ? no_agent_sentence : processes.error().sentence + "\n";
        screen.show(text);
        const char key = screen.wait_for_key(
            base::Deadline::after(static_cast<base::Nanoseconds>(*options.watch * 1e9)));
        if (key == 'q' || key == 'Q' || key == 27) return status_good;
    }
}

int run(const LinksOptions& options) {
    if (!options.watch) return look_once(options);
    if (!options.json && Screen::possible()) return watch_on_screen(options);
    return stream(options);
}

}  // namespace

void add_links_command(CLI::App& app, int& status) {
    auto options = std::make_shared<LinksOptions>();
    CLI::App* command = app.add_subcommand(
        "links", "Show the links of connections between hosts and how they changed");
    command->add_option("--pid", options->pid, "Only of this process");
    // A word of its own and not a default of CLI11: the time may be left out.
    auto seconds = std::make_shared<std::string>();
    CLI::Option* watch = command
                             ->add_option("--watch,-w", *seconds,
                                          "Look again and again, every so many seconds (default 1)")
                             ->expected(0, 1)
                             ->type_name("[SECONDS]")
                             ->check(CLI::Range(0.05, 86400.0) | CLI::IsMember({""}));
    command->add_flag("--json", options->json, "Print JSON; with --watch a line each time");
    const CLI::App* policy = add_link_policy_command(*command, status);
    command->callback([options, seconds, watch, command, policy, &status] {
        if (command->got_subcommand(policy)) return;
        if (watch->count() > 0) options->watch = seconds->empty() ? 1.0 : std::stod(*seconds);
        status = run(*options);
    });
}

}  // namespace via::tool
