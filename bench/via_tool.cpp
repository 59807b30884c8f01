// SPDX-License-Identifier: BSD-3-Clause
#include "via_tool.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

constexpr std::uint64_t tool_deadline_milliseconds = 60'000;

std::string_view name_of(Memory memory) {
    return memory == Memory::Heap ? "heap" : "kmem";
}

}  // namespace

Result<double> number_from(const Command& command, std::string_view member) {
    auto output = run(command, Deadline::after_milliseconds(tool_deadline_milliseconds));
    if (!output) return std::move(output).error();
    return json_number(output.value(), member, to_text(command));
}

Result<double> json_number(std::string_view text, std::string_view member,
                           std::string_view program) {
    const auto document = nlohmann::json::parse(text, nullptr, false);
    const nlohmann::json::json_pointer place("/" + std::string(member));
    if (document.is_object() && document.contains(place) && document.at(place).is_number()) {
        return document.at(place).get<double>();
    }
    return {base::Code::ProtocolViolation,
            fmt::format("{}: no number \"{}\" in its JSON; {}", program, member, last_words(text))};
}

ViaTool::ViaTool(std::string path, std::string folder, bare::CorePair cores,
                 std::string agent_socket)
    : path_(std::move(path)),
      folder_(std::move(folder)),
      cores_(cores),
      agent_socket_(std::move(agent_socket)) {}

std::vector<std::string> ViaTool::environment() const {
    return {"VIA_AGENT_SOCKET=" + agent_socket_};
}

std::string ViaTool::missing() const {
    if (!find_program(path_).empty()) return {};
    return fmt::format("no program {} (build it, or give --via PATH)", path_);
}

Command ViaTool::command(std::vector<std::string> arguments) const {
    Command command;
    command.arguments = std::move(arguments);
    command.arguments.insert(command.arguments.begin(), path_);
    command.environment = environment();
    return command;
}

std::string ViaTool::cpus() const {
    return fmt::format("{},{}", cores_.first, cores_.second);
}

Probe ViaTool::latency(const PingPongForm& form) const {
    Command command;
    const int second = form.one_core ? cores_.first : cores_.second;
    // Sharing a core badly costs a scheduler's tick per hop; few round trips keep that bounded.
    const std::size_t iterations = form.one_core ? 4000 : latency_iterations(form.bytes);
    command.arguments = {path_,
                         "pingpong",
                         "--device",
                         "shm0",
                         "--bytes",
                         std::to_string(form.bytes),
                         "--json",
                         "--cpus",
                         fmt::format("{},{}", cores_.first, second),
                         "--memory",
                         std::string(name_of(form.memory)),
                         "--wait",
                         form.block ? "block" : "poll",
                         "--iterations",
                         std::to_string(iterations),
                         "--repetitions",
                         "1"};
    if (form.idle_vis) {
        command.arguments.insert(command.arguments.end(),
                                 {"--idle-vis", std::to_string(*form.idle_vis)});
    }
    command.environment = environment();
    return {"via", Quantity::OneWayMicroseconds, missing(),
            [command] { return number_from(command, "one_way_us"); }};
}

Probe ViaTool::message_rate(std::size_t bytes, Memory memory) const {
    Command command;
    command.arguments = {path_,
                         "window",
                         "--device",
                         "shm0",
                         "--bytes",
                         std::to_string(bytes),
                         "--json",
                         "--cpus",
                         cpus(),
                         "--memory",
                         std::string(name_of(memory)),
                         "--iterations",
                         std::to_string(stream_iterations(bytes)),
                         "--repetitions",
                         "1"};
    command.environment = environment();
    return {"via", Quantity::MessagesPerSecond, missing(),
            [command] { return number_from(command, "messages_per_s"); }};
}

Probe ViaTool::stream(std::size_t bytes, Memory memory) const {
    return in_bytes_per_second(message_rate(bytes, memory), bytes);
}

Probe ViaTool::memory_per_vi() const {
    Command command;
    command.arguments = {folder_ + "/vi_memory", "--json"};
    command.environment = environment();
    const std::string absent =
        find_program(command.arguments[0]).empty() ? "no program " + command.arguments[0] : "";
    return {"via", Quantity::Kibibytes, absent,
            [command] { return number_from(command, "kib_per_vi"); }};
}

Probe ViaTool::blocked_cpu() const {
    Command command;
    command.arguments = {folder_ + "/blocked_cpu", "--json"};
    command.environment = environment();
    const std::string absent =
        find_program(command.arguments[0]).empty() ? "no program " + command.arguments[0] : "";
    return {"via", Quantity::Percent, absent,
            [command] { return number_from(command, "cpu_percent"); }};
}

Result<std::size_t> ViaTool::stream_buffers(std::size_t bytes) const {
    Command command;
    command.arguments = {
        path_,    "window",       "--device", "shm0",          "--bytes", std::to_string(bytes),
        "--json", "--iterations", "200",      "--repetitions", "1"};
    command.environment = environment();
    auto count = number_from(command, "buffers");
    if (!count) return std::move(count).error();
    if (count.value() < 1) {
        return {base::Code::ProtocolViolation, to_text(command) + ": says it has no buffers"};
    }
    return static_cast<std::size_t>(count.value());
}

std::string ViaTool::version() const {
    Command command;
    command.arguments = {path_, "--version"};
    auto output = run(command, Deadline::after_milliseconds(5000));
    if (!output) return {};
    std::string text = output.value();
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    return text;
}

void ViaTool::stop_agent() const {
    Command command;
    command.arguments = {path_, "agent", "stop"};
    command.environment = environment();
    // Nobody to stop is as good as stopped; an agent on demand also ends by itself.
    (void)run(command, Deadline::after_milliseconds(5000));
}

}  // namespace via::bench
