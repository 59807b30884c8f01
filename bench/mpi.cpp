// SPDX-License-Identifier: BSD-3-Clause
#include "mpi.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>
#include <utility>

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

/// About how long one size is measured.
constexpr double seconds_per_size = 0.1;

}  // namespace

Result<std::vector<Point>> parse_points(const std::string& output) {
    std::vector<Point> points;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        Point point;
        std::string rest;
        if (!(fields >> point.bytes >> point.value) || fields >> rest || point.value <= 0) {
            return {base::Code::ProtocolViolation,
                    "expected a line \"BYTES VALUE\" from the MPI ping-pong; " + last_words(line)};
        }
        points.push_back(point);
    }
    return points;
}

Mpi::Mpi(MpiKind kind, const std::string& folder, bare::CorePair cores)
    : kind_(kind), cores_(cores) {
    const bool open = kind == MpiKind::OpenMpi;
    name_ = open ? "Open MPI" : "MPICH";
    // Debian's names: both can be installed side by side.
    launcher_ = open ? "mpirun.openmpi" : "mpirun.mpich";
    compiler_ = open ? "mpicc.openmpi" : "mpicc.mpich";
    program_ = folder + (open ? "/pingpong.openmpi" : "/pingpong.mpich");
    if (open) transport_ = {"--mca", "btl", "vader,self", "--oversubscribe"};
    if (find_program(launcher_).empty() || find_program(compiler_).empty()) {
        missing_ = open ? "install openmpi-bin libopenmpi-dev" : "install mpich libmpich-dev";
    }
}

void Mpi::compile(const std::string& source) {
    if (!missing_.empty()) return;
    Command compile;
    compile.arguments = {compiler_, "-O2", "-std=c99", source, "-o", program_};
    if (auto compiled = run(compile, Deadline::after_milliseconds(60'000)); !compiled) {
        missing_ = compiled.error().sentence;
    }
}

Mpi Mpi::over(std::string name, std::vector<std::string> transport, MpiLaunch launch) const {
    Mpi other = *this;
    other.name_ = std::move(name);
    other.transport_ = std::move(transport);
    other.launch_ = std::move(launch);
    return other;
}

Result<std::vector<Point>> Mpi::measure(const std::string& what,
                                        const std::vector<std::size_t>& sizes) const {
    Command command;
    command.arguments = {launcher_, "-n", "2"};
    if (kind_ == MpiKind::OpenMpi) {
        // The program pins itself, to the same cores as everybody else.
        command.arguments.insert(command.arguments.end(),
                                 {"--bind-to", "none", "--mca", "pml", "ob1"});
        // Ranks have a core each and must spin, however many slots there are said to be.
        command.arguments.insert(command.arguments.end(), {"--mca", "mpi_yield_when_idle", "0"});
        if (::geteuid() == 0) command.arguments.emplace_back("--allow-run-as-root");
    }
    command.arguments.insert(command.arguments.end(), transport_.begin(), transport_.end());
    command.arguments.insert(command.arguments.end(),
                             {program_, what, fmt::format("{},{}", cores_.first, cores_.second),
                              fmt::format("{}", seconds_per_size)});
    for (const std::size_t bytes : sizes)
        command.arguments.push_back(std::to_string(bytes));
    const std::uint64_t milliseconds = 30'000 + 2'000 * sizes.size();
    auto output = launch_(command, Deadline::after_milliseconds(milliseconds));
    if (!output) return std::move(output).error();
    auto points = parse_points(output.value());
    if (points && points.value().size() != sizes.size()) {
        return {base::Code::ProtocolViolation,
                fmt::format("{}: {} values for {} sizes", to_text(command), points.value().size(),
                            sizes.size())};
    }
    return points;
}

Probe Mpi::probe(const std::string& what, std::size_t bytes, Quantity quantity) const {
    return {name_, quantity, missing_, [self = *this, what, bytes]() -> Result<double> {
                auto points = self.measure(what, {bytes});
                if (!points) return std::move(points).error();
                return points.value().front().value;
            }};
}

Probe Mpi::latency(std::size_t bytes) const {
    return probe("latency", bytes, Quantity::OneWayMicroseconds);
}

Probe Mpi::message_rate(std::size_t bytes) const {
    return probe("rate", bytes, Quantity::MessagesPerSecond);
}

Probe Mpi::stream(std::size_t bytes) const {
    return in_bytes_per_second(message_rate(bytes), bytes);
}

Curve Mpi::latency_curve(const std::vector<std::size_t>& sizes) const {
    return {name_, Quantity::OneWayMicroseconds, missing_, {[self = *this, sizes] {
                return self.measure("latency", sizes);
            }}};
}

Curve Mpi::stream_curve(const std::vector<std::size_t>& sizes) const {
    return {name_,
            Quantity::BytesPerSecond,
            missing_,
            {[self = *this, sizes]() -> Result<std::vector<Point>> {
                auto points = self.measure("rate", sizes);
                if (!points) return points;
                for (Point& point : points.value())
                    point.value *= static_cast<double>(point.bytes);
                return points;
            }}};
}

std::string Mpi::version() const {
    if (!missing_.empty()) return {};
    Command command;
    command.arguments = {launcher_, "--version"};
    auto output = run(command, Deadline::after_milliseconds(10'000));
    if (!output) return {};
    std::istringstream lines(output.value());
    std::string first;
    std::string second;
    std::getline(lines, first);
    // MPICH's launcher says its version in the second line.
    std::getline(lines, second);
    const auto start = second.find("Version:");
    if (start == std::string::npos) return first;
    const auto number = second.find_first_not_of(' ', start + 8);
    return "MPICH " + (number == std::string::npos ? std::string("?") : second.substr(number));
}

}  // namespace via::bench
