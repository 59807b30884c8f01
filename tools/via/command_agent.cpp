// SPDX-License-Identifier: BSD-3-Clause
// `via agent`: the kernel agent viad, seen from outside.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "agent_report.hpp"
#include "base/clock.hpp"
#include "command.hpp"
#include "ka/client.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

constexpr std::uint64_t patience_milliseconds = 5000;

base::Deadline soon() {
    return base::Deadline::after_milliseconds(patience_milliseconds);
}

void print_for_people(const ka::AgentStatus& status) {
    fmt::print("viad {} runs as process {} of user {} for {} s at {}\n", status.version, status.pid,
               status.uid, status.uptime_seconds, printable(status.socket));
    if (status.on_demand)
        fmt::print("It was started on demand and ends after {} s without clients.\n",
                   status.idle_seconds_limit);
    else
        fmt::print("It runs until it is stopped.\n");
    fmt::print("kmem {} huge pages.\n", status.huge_pages ? "uses" : "uses no");
    if (status.net_problem.empty())
        fmt::print("Other hosts reach it at UDP port {}; the cluster {}.\n", status.net_port,
                   status.net_key ? "has a key" : "is open, it has no key");
    else
        fmt::print("Other hosts can not reach it: {}.\n", printable(status.net_problem));
    if (status.processes.empty()) {
        fmt::print("No process is attached.\n");
        return;
    }
    TextTable table;
    table.add_column("pid");
    table.add_column("program", Align::Left);
    for (const char* title :
         {"uid", "seconds", "VIs", "connected", "waiting", "regions", "registered", "kmem"})
        table.add_column(title);
    for (const ka::ProcessStatus& process : status.processes)
        table.add_row({fmt::format("{}", process.pid), printable(process.program),
                       fmt::format("{}", process.uid), fmt::format("{}", process.attached_seconds),
                       fmt::format("{}", process.vis), fmt::format("{}", process.connections),
                       fmt::format("{}", process.waiting), fmt::format("{}", process.regions),
                       fmt::format("{}", process.registered_bytes),
                       fmt::format("{}", process.kmem_bytes)});
    fmt::print("\n{}", table.draw());
}

/// No agent is a plain answer to "status" and "stop", not a failure to ask.
int say_none_runs(bool json) {
    if (json)
        print_json({{"running", false}});
    else
        fmt::print("No kernel agent runs; the first process that needs one starts it.\n");
    return status_good;
}

int show_status(bool json) {
    auto client = ka::AgentClient::attach_if_running({}, soon());
    if (!client)
        return client.error().code == base::Code::NotFound ? say_none_runs(json)
                                                           : report_failure(client.error());
    const auto status = client.value()->status();
    if (!status) return report_failure(status.error());
    if (json)
        print_json(agent_json(status.value()));
    else
        print_for_people(status.value());
    return status_good;
}

int start(bool json) {
    auto client = ka::AgentClient::attach({}, soon());
    if (!client) return report_failure(client.error());
    const auto status = client.value()->status();
    if (!status) return report_failure(status.error());
    if (json)
        print_json(agent_json(status.value()));
    else
        fmt::print("viad runs as process {}.\n", status.value().pid);
    return status_good;
}

int stop(bool json) {
    auto client = ka::AgentClient::attach_if_running({}, soon());
    if (!client)
        return client.error().code == base::Code::NotFound ? say_none_runs(json)
                                                           : report_failure(client.error());
    const auto status = client.value()->status();
    const std::int32_t pid = status ? status.value().pid : 0;
    if (const auto stopped = client.value()->stop_agent(); !stopped)
        return report_failure(stopped.error());
    client.value().reset();
    // It answers before it ends; who comes right after must not meet it any more.
    const base::Deadline deadline = soon();
    for (;;) {
        auto again = ka::AgentClient::attach_if_running({}, deadline);
        if (!again) break;
        if (const auto now = again.value()->status(); now && now.value().pid != pid) break;
        if (deadline.expired())
            return report_failure(
                {base::Code::Timeout, fmt::format("viad (process {}) has agreed to stop but still "
                                                  "answers after {} ms",
                                                  pid, patience_milliseconds)});
        const timespec pause{0, 10'000'000};
        nanosleep(&pause, nullptr);
    }
    if (json)
        print_json({{"running", false}, {"stopped_pid", pid}});
    else
        fmt::print("viad (process {}) has stopped. Connected VIs go on without it.\n", pid);
    return status_good;
}

}  // namespace

void add_agent_command(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("agent", "See, start and stop the kernel agent viad");
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* meaning, int (*run)(bool)) {
        auto json = std::make_shared<bool>(false);
        CLI::App* action = command->add_subcommand(name, meaning);
        action->add_flag("--json", *json, "Print JSON");
        action->callback([json, run, &status] { status = run(*json); });
    };
    add("status", "Who runs, and which processes it serves", show_status);
    add("start", "Start it unless it runs", start);
    add("stop", "Stop it; connections go on, the next call that needs it starts another", stop);
}

}  // namespace via::tool
