// SPDX-License-Identifier: BSD-3-Clause
// `via stat`: live counters of the processes that use Viaduct.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.hpp"
#include "command.hpp"
#include "counters_snapshot.hpp"
#include "message_report.hpp"
#include "process_report.hpp"
#include "process_watch.hpp"
#include "readable.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using base::Result;

struct StatOptions {
    std::string who;
    bool once = false;
    bool json = false;
    std::optional<double> interval;
};

class Watch {
  public:
    explicit Watch(std::string who) : processes_(std::move(who)) {}

    /// A look at all processes that are wanted. NotFound: no agent runs.
    Result<std::vector<ReportedProcess>> look() {
        auto seen = processes_.look();
        if (!seen) return std::move(seen).error();
        std::vector<ReportedProcess> processes;
        for (WatchedProcess& one : seen.value())
            processes.push_back(with_rates(std::move(one)));
        return processes;
    }

  private:
    ProcessWatch processes_;
};

/// "inline 12, cma 3": the ways that messages took, where any did.
template <class Numbers>
std::string by_path(const Numbers& numbers) {
    std::string text;
    for (std::size_t path = 0; path < base::data_paths; ++path) {
        if (!(numbers[path] > 0)) continue;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                            base::data_path_name(static_cast<base::DataPath>(path)),
                            short_number(numbers[path]));
    }
    return text.empty() ? "-" : text;
}

std::string per_second(const std::optional<Rates>& rates, double Rates::*member) {
    return rates ? short_number((*rates).*member) : "";
}

std::string megabytes(const std::optional<Rates>& rates, double Rates::*member) {
    return rates ? fmt::format("{:.1f}", (*rates).*member / 1e6) : "";
}

std::string overview(const std::vector<ReportedProcess>& processes) {
    TextTable table;
    table.add_column("pid");
    table.add_column("program", Align::Left);
    for (const char* title : {"VIs", "sent", "received", "sent/s", "recv/s", "MB/s out", "MB/s in",
                              "RDMA MB/s", "stalls", "sleeps", "errors"})
        table.add_column(title);
    for (const ReportedProcess& process : processes) {
        if (!process.problem.empty()) {
            table.add_row({fmt::format("{}", process.agent.pid), process.agent.program,
                           fmt::format("{}", process.agent.vis)});
            continue;
        }
        const ViSnapshot& totals = process.counters.totals;
        std::uint64_t errors = 0;
        for (const ErrorSnapshot& error : process.counters.errors)
            errors += error.count;
        table.add_row({fmt::format("{}", process.agent.pid), process.agent.program,
                       fmt::format("{}", process.counters.vis.size()),
                       short_number(totals.all_sent()), short_number(totals.all_received()),
                       per_second(process.total_rates, &Rates::sent_messages),
                       per_second(process.total_rates, &Rates::received_messages),
                       megabytes(process.total_rates, &Rates::sent_bytes),
                       megabytes(process.total_rates, &Rates::received_bytes),
                       megabytes(process.total_rates, &Rates::rdma_bytes),
                       short_number(totals.send_stalls), short_number(totals.sleeps),
                       short_number(errors)});
    }
    return table.draw();
}

std::string details(const ReportedProcess& process) {
    if (!process.problem.empty())
        return fmt::format("process {} {}: {}\n", process.agent.pid, process.agent.program,
                           printable(process.problem));
    const ViSnapshot& totals = process.counters.totals;
    std::string text = fmt::format(
        "process {} {}, since {}; {} regions of {} bytes, kmem {} bytes\n", process.agent.pid,
        process.agent.program, time_text(process.counters.started_wall_ns), process.agent.regions,
        short_number(process.agent.registered_bytes), short_number(process.agent.kmem_bytes));
    text += fmt::format("  sent by path: {}; received by path: {}\n", by_path(totals.sent_messages),
                        by_path(totals.received_messages));
    if (process.total_rates)
        text += fmt::format("  sent/s by path: {}; received/s by path: {}\n",
                            by_path(process.total_rates->sent_by_path),
                            by_path(process.total_rates->received_by_path));
    text += fmt::format(
        "  RDMA writes {}, reads {}, {} bytes; big ring {} posts, {} refills; wakes sent {}; "
        "completed in error {}\n",
        short_number(totals.rdma_writes), short_number(totals.rdma_reads),
        short_number(totals.rdma_bytes), short_number(totals.big_ring_posts),
        short_number(totals.big_ring_refills), short_number(totals.wakes_sent),
        short_number(totals.completed_in_error));

    text += describe_messages(process.counters.messages, process.message_rates);

    TextTable table;
    table.add_column("VI");
    for (const char* title : {"device", "state", "reliability"})
        table.add_column(title, Align::Left);
    for (const char* title : {"peer", "sent", "received", "sent/s", "recv/s", "MB/s out", "MB/s in",
                              "RDMA/s", "stalls", "sleeps", "big ring", "failed"})
        table.add_column(title);
    table.add_column("paths sent", Align::Left);
    for (const ViSnapshot& vi : process.counters.vis) {
        std::optional<Rates> rates;
        if (const auto found = process.vi_rates.find(vi.slot); found != process.vi_rates.end())
            rates = found->second;
        table.add_row(
            {fmt::format("{}", vi.slot), vi.device, std::string(vi_state_name(vi.state)),
             std::string(reliability_name(vi.reliability)),
             vi.peer_pid == 0 ? "-" : fmt::format("{}", vi.peer_pid), short_number(vi.all_sent()),
             short_number(vi.all_received()), per_second(rates, &Rates::sent_messages),
             per_second(rates, &Rates::received_messages), megabytes(rates, &Rates::sent_bytes),
             megabytes(rates, &Rates::received_bytes), per_second(rates, &Rates::rdma_operations),
             short_number(vi.send_stalls), short_number(vi.sleeps), short_number(vi.big_ring_posts),
             short_number(vi.completed_in_error), by_path(vi.sent_messages)});
    }
    if (!process.counters.vis.empty()) text += table.draw("  ");
    for (const ErrorSnapshot& error : process.counters.errors)
        text +=
            fmt::format("  error {}x, {} .. {}: {}\n", error.count, time_text(error.first_wall_ns),
                        time_text(error.last_wall_ns), error.text);
    return text;
}

std::string picture(const std::vector<ReportedProcess>& processes, const std::string& who) {
    if (processes.empty())
        return who.empty() ? "No process uses Viaduct at the moment.\n"
                           : fmt::format("No process '{}' uses Viaduct.\n", printable(who));
    std::string text = overview(processes);
    // Without a choice only the overview, but what is wrong is always said.
    for (const ReportedProcess& process : processes)
        if (!who.empty() || processes.size() == 1)
            text += "\n" + details(process);
        else if (!process.problem.empty())
            text += "\n" + details(process);
    return text;
}

nlohmann::json as_json(const std::vector<ReportedProcess>& processes) {
    auto list = nlohmann::json::array();
    for (const ReportedProcess& process : processes)
        list.push_back(process_json(process));
    return {{"agent_running", true}, {"processes", list}};
}

/// What was asked for is not there: a failure if a process was named, else a plain answer.
int say_none_runs(const StatOptions& options) {
    if (options.json)
        print_json_line({{"agent_running", false}, {"processes", nlohmann::json::array()}});
    else
        fmt::print("No kernel agent runs, so no process uses Viaduct.\n");
    return options.who.empty() ? status_good : status_failed;
}

int look_once(const StatOptions& options) {
    Watch watch(options.who);
    auto processes = watch.look();
    if (processes && options.interval) {
        sleep_for(*options.interval);
        processes = watch.look();
    }
    if (!processes)
        return no_agent(processes.error()) ? say_none_runs(options)
                                           : report_failure(processes.error());
    if (options.json)
        print_json(as_json(processes.value()));
    else
        fmt::print("{}", picture(processes.value(), options.who));
    return processes.value().empty() && !options.who.empty() ? status_failed : status_good;
}

/// One JSON line an interval, until the reader goes away.
int stream(const StatOptions& options) {
    Watch watch(options.who);
    for (;;) {
        const auto processes = watch.look();
        if (processes)
            print_json_line(as_json(processes.value()));
        else if (no_agent(processes.error()))
            (void)say_none_runs(options);
        else
            return report_failure(processes.error());
        if (ferror(stdout)) return status_good;
        sleep_for(options.interval.value_or(1));
    }
}

int watch_on_screen(const StatOptions& options) {
    Watch watch(options.who);
    double interval = options.interval.value_or(1);
    Screen screen;
    for (;;) {
        const auto processes = watch.look();
        std::string text = fmt::format(
            "via stat{}{}: every {:g} s; q ends, + and - change the time, space looks "
            "at once\n\n",
            options.who.empty() ? "" : " ", printable(options.who), interval);
        if (processes)
            text += picture(processes.value(), options.who);
        else if (no_agent(processes.error()))
            text += "No kernel agent runs, so no process uses Viaduct.\n";
        else
            text += processes.error().sentence + "\n";
        screen.show(text);
        switch (screen.wait_for_key(
            base::Deadline::after(static_cast<base::Nanoseconds>(interval * 1e9)))) {
            case 'q':
            case 'Q':
            case 27:
                return status_good;
            case '+':
                interval = std::min(interval * 2, 3600.0);
                break;
            case '-':
                interval = std::max(interval / 2, 0.125);
                break;
            default:
                break;
        }
    }
}

int run(const StatOptions& options) {
    if (options.once) return look_once(options);
    if (options.json) return stream(options);
    if (Screen::possible()) return watch_on_screen(options);
    return look_once(options);  // nobody to press q
}

}  // namespace

void add_stat_command(CLI::App& app, int& status) {
    auto options = std::make_shared<StatOptions>();
    CLI::App* command =
        app.add_subcommand("stat", "Watch the live counters of the processes that use Viaduct");
    command->add_option("who", options->who, "A process number or a part of a program's name");
    command->add_flag("--once", options->once, "Look once (twice with --interval, for rates)");
    command->add_flag("--json", options->json, "Print JSON; without --once a line each interval");
    command->add_option("--interval,-i", options->interval, "Seconds between two looks")
        ->check(CLI::Range(0.01, 86400.0));
    command->callback([options, &status] { status = run(*options); });
}

}  // namespace via::tool
