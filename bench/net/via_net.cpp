// SPDX-License-Identifier: BSD-3-Clause
#include "net/via_net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace via::bench {

namespace {

constexpr double latency_seconds = 0.25;
constexpr double stream_seconds = 0.4;
/// A stream that stands still for so long has failed.
constexpr const char* patience_seconds = "5";

Probe take_number(const ViaTool& via, const char* program, const NetForm& form, Quantity quantity,
                  std::string member) {
    return {"via", quantity, via.missing(),
            [via, program, form, member = std::move(member)]() -> base::Result<double> {
                return number_from(via_net_command(via, program, form), member);
            }};
}

/// How many messages the links carry in the time. A trial run, as the tool would make it to find
/// that out, takes longer than the measurement on a slow link.
std::uint64_t messages_of(const NetForm& form) {
    const double messages =
        static_cast<double>(form.rate) / 8 * stream_seconds / static_cast<double>(form.bytes);
    return std::max<std::uint64_t>(8, static_cast<std::uint64_t>(messages));
}

}  // namespace

Command via_net_command(const ViaTool& via, const char* program, const NetForm& form) {
    const bool pingpong = std::string_view(program) == "pingpong";
    std::vector<std::string> arguments = {program,    "--lab",         form.lab->options().name,
                                          "--json",   "--bytes",       std::to_string(form.bytes),
                                          "--memory", "heap",          "--cpus",
                                          via.cpus(), "--repetitions", "1"};
    const auto add = [&](const char* option, std::string value) {
        arguments.emplace_back(option);
        arguments.push_back(std::move(value));
    };
    add("--timeout", patience_seconds);
    if (form.block) add("--wait", "block");
    if (!form.policy.empty()) add("--policy", form.policy);
    if (!form.raw.empty()) add("--raw", form.raw);
    if (form.rate == 0) {
        add("--seconds", fmt::format("{}", pingpong ? latency_seconds : stream_seconds));
    } else {
        add("--iterations", std::to_string(messages_of(form)));
        add("--warmup", std::to_string(messages_of(form) / 3));
    }
    Command command = via.command(std::move(arguments));
    if (!form.links.empty()) command.environment.push_back("VIA_NET_INTERFACES=" + form.links);
    return command;
}

Probe via_net_latency(const ViaTool& via, const NetForm& form) {
    return take_number(via, "pingpong", form, Quantity::OneWayMicroseconds, "one_way_us");
}

Probe via_net_rate(const ViaTool& via, const NetForm& form) {
    return take_number(via, "window", form, Quantity::MessagesPerSecond, "messages_per_s");
}

Probe via_net_stream(const ViaTool& via, const NetForm& form) {
    return in_bytes_per_second(via_net_rate(via, form), form.bytes);
}

Probe via_net_cpu(const ViaTool& via, const NetForm& form) {
    return take_number(via, "window", form, Quantity::CpuSecondsPerGigabyte, "cpu_s_per_gb");
}

Probe via_net_stall(const ViaTool& via, bool silent) {
    std::vector<std::string> arguments = {"lab",   "demo", "--json", "--seconds", "1.6",
                                          "--cut", "0.5",  "--back", "1.1"};
    if (silent) arguments.emplace_back("--silent");
    return {"via", Quantity::Milliseconds, via.missing(),
            [command = via.command(std::move(arguments))] {
                return number_from(command, "longest_stall/ms");
            }};
}

}  // namespace via::bench
