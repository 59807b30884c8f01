// SPDX-License-Identifier: BSD-3-Clause
#include "ucx.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/fd.hpp"
#include "process.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

constexpr std::uint64_t deadline_milliseconds = 60'000;
constexpr std::string_view transports = "UCX_TLS=posix,cma,self";

/// A TCP port that was free a moment ago.
Result<int> free_port() {
    const base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* general = reinterpret_cast<sockaddr*>(&address);
    if (!socket.valid() || ::bind(socket.get(), general, length) != 0 ||
        ::getsockname(socket.get(), general, &length) != 0) {
        return base::system_error(errno, "find a free TCP port for ucx_perftest");
    }
    return static_cast<int>(ntohs(address.sin_port));
}

/// Asks the kernel's table, because a trial connection would be taken for the client.
bool somebody_listens(int port) {
    const std::string wanted = fmt::format(":{:04X}", port);
    for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file(path);
        std::string line;
        while (std::getline(file, line)) {
            std::istringstream fields(line);
            std::string number, local, remote, state;
            fields >> number >> local >> remote >> state;
            if (local.ends_with(wanted) && state == "0A") return true;
        }
    }
    return false;
}

Result<std::string> perftest(std::string_view test, std::size_t bytes, std::size_t iterations,
                             bare::CorePair cores) {
    const Deadline deadline = Deadline::after_milliseconds(deadline_milliseconds);
    auto port = free_port();
    if (!port) return std::move(port).error();
    Command server;
    server.arguments = {"ucx_perftest",
                        "-t",
                        std::string(test),
                        "-s",
                        std::to_string(bytes),
                        "-n",
                        std::to_string(iterations),
                        "-w",
                        std::to_string(iterations / 10 + 1),
                        "-p",
                        std::to_string(port.value()),
                        "-f",
                        "-v"};
    server.environment = {std::string(transports)};
    server.removed_prefix = "UCX_";
    Command client = server;
    server.core = cores.first;
    client.core = cores.second;
    server.arguments.insert(server.arguments.end(), {"-c", std::to_string(cores.first)});
    client.arguments.insert(client.arguments.end(),
                            {"-c", std::to_string(cores.second), "127.0.0.1"});

    auto serving = Process::start(server);
    if (!serving) return std::move(serving).error();
    while (!somebody_listens(port.value())) {
        if (!serving.value().running() || deadline.expired()) {
            auto outcome = serving.value().finish(Deadline::after_milliseconds(100));
            return {base::Code::System,
                    to_text(server) + ": the server does not listen; " +
                        (outcome ? last_words(outcome.value().output + outcome.value().errors)
                                 : outcome.error().sentence)};
        }
        ::poll(nullptr, 0, 2);
    }
    auto output = run(client, deadline);
    if (!output) return output;
    auto served = serving.value().finish(deadline);
    if (!served) return std::move(served).error();
    return output;
}

}  // namespace

Result<double> ucx_column(std::string_view output, std::string_view column_end) {
    const auto split = [](const std::string& line) {
        std::vector<std::string> cells;
        std::istringstream stream(line);
        for (std::string cell; std::getline(stream, cell, ',');)
            cells.push_back(cell);
        return cells;
    };
    std::istringstream lines{std::string(output)};
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) {
        const auto cells = split(line);
        if (!cells.empty() && cells[0] == "iterations") {
            names = cells;
            continue;
        }
        if (names.empty() || cells.size() != names.size()) continue;
        for (std::size_t column = 0; column < names.size(); ++column) {
            if (!names[column].ends_with(column_end)) continue;
            double value = 0;
            const std::string& cell = cells[column];
            const auto parsed = std::from_chars(cell.data(), cell.data() + cell.size(), value);
            if (parsed.ec == std::errc() && value > 0) return value;
        }
    }
    return {base::Code::ProtocolViolation,
            fmt::format("ucx_perftest printed no positive number in a column ...{}; {}", column_end,
                        last_words(output))};
}

Ucx::Ucx(bare::CorePair cores) : cores_(cores) {
    if (find_program("ucx_perftest").empty()) missing_ = "install ucx-utils";
}

Probe Ucx::latency(std::size_t bytes) const {
    return {"UCX tag_lat", Quantity::OneWayMicroseconds, missing_,
            [bytes, cores = cores_]() -> Result<double> {
                auto output = perftest("tag_lat", bytes, latency_iterations(bytes), cores);
                if (!output) return std::move(output).error();
                return ucx_column(output.value(), "percentile_lat");
            }};
}

Probe Ucx::message_rate(std::size_t bytes) const {
    return {"UCX tag_bw", Quantity::MessagesPerSecond, missing_,
            [bytes, cores = cores_]() -> Result<double> {
                auto output = perftest("tag_bw", bytes, stream_iterations(bytes), cores);
                if (!output) return std::move(output).error();
                return ucx_column(output.value(), "overall_mr");
            }};
}

Probe Ucx::stream(std::size_t bytes) const {
    // Not its own bandwidth column, whose megabytes are of another size than ours.
    return in_bytes_per_second(message_rate(bytes), bytes);
}

std::string Ucx::version() const {
    if (find_program("ucx_info").empty()) return {};
    Command command;
    command.arguments = {"ucx_info", "-v"};
    auto output = run(command, Deadline::after_milliseconds(10'000));
    if (!output) return {};
    // The first line that is about the version, without the comment sign.
    std::istringstream lines(output.value());
    for (std::string line; std::getline(lines, line);) {
        if (line.find("ersion") == std::string::npos) continue;
        const auto start = line.find_first_not_of("# ");
        return start == std::string::npos ? line : line.substr(start);
    }
    return {};
}

}  // namespace via::bench
