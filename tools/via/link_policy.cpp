// SPDX-License-Identifier: BSD-3-Clause
#include "link_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "command.hpp"
#include "connection_links.hpp"
#include "process_watch.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

/// A process that runs follows in a few milliseconds; one that is stopped never.
constexpr base::Nanoseconds policy_patience = 3'000'000'000;

struct LinkPolicyOptions {
    std::string policy;
    std::optional<std::int32_t> pid;
    std::uint32_t vi = 0;
};

/// The connections of the process that are meant.
std::vector<ConnectionLinks> meant(const WatchedProcess& process,
                                   const LinkPolicyOptions& options) {
    auto connections = links_of_connections(process.counters, {});
    if (options.vi != 0)
        std::erase_if(connections, [&](const auto& one) { return one.vi_slot != options.vi; });
    return connections;
}

bool follows(const WatchedProcess& process, const LinkPolicyOptions& options) {
    const auto connections = meant(process, options);
    return std::all_of(connections.begin(), connections.end(), [&](const auto& one) {
        // VIs beyond the last slot share the first one, which has no policy.
        return one.policy == options.policy || one.vi_slot == 0;
    });
}

/// As it was when it was asked, and how it is now.
int report(const std::vector<WatchedProcess>& asked, const std::vector<WatchedProcess>& now,
           const LinkPolicyOptions& options) {
    int status = status_good;
    for (const WatchedProcess& process : asked) {
        const std::string name =
            fmt::format("process {} {}", process.agent.pid, process.agent.program);
        const auto found = std::find_if(now.begin(), now.end(), [&](const auto& one) {
            return one.agent.pid == process.agent.pid;
        });
        if (found == now.end()) {
            fmt::print("{} has ended\n", name);
        } else if (!follows(*found, options)) {
            fmt::print("{} has been told and does not follow; does it stand still?\n", name);
            status = status_failed;
        } else {
            fmt::print("{}: {} on {}\n", name, options.policy,
                       options.vi != 0 ? fmt::format("VI {}", options.vi)
                                       : fmt::format("{} connection(s) and later ones",
                                                     meant(*found, options).size()));
        }
    }
    return status;
}

int run(const LinkPolicyOptions& options) {
    ProcessWatch watch(options.pid ? std::to_string(*options.pid) : std::string());
    auto processes = watch.look();
    if (!processes) return report_failure(processes.error());
    std::vector<WatchedProcess> asked = std::move(processes).value();
    if (!options.pid || options.vi != 0)
        std::erase_if(asked, [&](const auto& one) { return meant(one, options).empty(); });
    if (asked.empty())
        return report_failure(
            {base::Code::NotFound,
             options.vi != 0 ? fmt::format("process {} has no VI {} with a connection to another "
                                           "host; see via links",
                                           *options.pid, options.vi)
             : options.pid   ? fmt::format("no process {} uses Viaduct here", *options.pid)
                             : "no process here has a connection to another host"});
    for (const WatchedProcess& process : asked)
        if (auto told = watch.wish_link_policy(process.agent.pid, {options.policy, options.vi});
            !told)
            return report_failure(told.error());
    const base::Deadline deadline = base::Deadline::after(policy_patience);
    for (;;) {
        auto now = watch.look();
        if (!now) return report_failure(now.error());
        if (deadline.expired() ||
            std::all_of(now.value().begin(), now.value().end(),
                        [&](const auto& one) { return follows(one, options); }))
            return report(asked, now.value(), options);
        sleep_for(0.02);
    }
}

}  // namespace

CLI::App* add_link_policy_command(CLI::App& links, int& status) {
    auto options = std::make_shared<LinkPolicyOptions>();
    CLI::App* command =
        links.add_subcommand("policy", "Change how running processes choose among their links");
    command->add_option("policy", options->policy, "For what they send from now on")
        ->required()
        ->check(CLI::IsMember({"static", "oneway", "dynamic", "adaptive"}));
    CLI::Option* pid = command->add_option("--pid", options->pid,
                                           "Of this process (default: all that have connections)");
    command->add_option("--vi", options->vi, "Only of its VI of this number, as via links shows it")
        ->needs(pid)
        ->check(CLI::PositiveNumber);
    command->callback([options, &status] { status = run(*options); });
    return command;
}

}  // namespace via::tool
