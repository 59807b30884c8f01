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
constexpr double seconds_blocked = 1;

constexpr const char* programs[] = {"pingpong", "collective", "blocked"};

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
                    "expected a line \"BYTES VALUE\" from the MPI program; " + last_words(line)};
        }
        points.push_back(point);
    }
    return points;
}

Mpi::Mpi(MpiKind kind, const std::string& folder, bare::CorePair cores)
    : kind_(kind), folder_(folder), cores_(cores) {
    const bool open = kind == MpiKind::OpenMpi;
    name_ = open ? "Open MPI" : "MPICH";
    // Debian's names: both can be installed side by side.
    launcher_ = open ? "mpirun.openmpi" : "mpirun.mpich";
    compiler_ = open ? "mpicc.openmpi" : "mpicc.mpich";
    // Ranks have a core each and must spin, however many slots there are said to be.
    if (open)
        transport_ = {"--oversubscribe", "--mca", "mpi_yield_when_idle", "0", "--mca", "pml", "ob1",
                      "--mca",           "btl",   "vader,self"};
    if (find_program(launcher_).empty() || find_program(compiler_).empty()) {
        missing_ = open ? "install openmpi-bin libopenmpi-dev" : "install mpich libmpich-dev";
    }
}

std::string Mpi::program(const std::string& name) const {
    return fmt::format("{}/{}.{}", folder_, name, kind_ == MpiKind::OpenMpi ? "openmpi" : "mpich");
}

void Mpi::compile(const std::string& sources) {
    for (const char* const name : programs) {
        if (!missing_.empty()) return;
        Command compile;
        compile.arguments = {compiler_,  "-O2",
                             "-std=c99", fmt::format("{}/{}.c", sources, name),
                             "-o",       program(name)};
        if (auto compiled = run(compile, Deadline::after_milliseconds(60'000)); !compiled) {
            missing_ = compiled.error().sentence;
        }
    }
}

Mpi Mpi::without(std::string why) const {
    Mpi other = *this;
    if (other.missing_.empty()) other.missing_ = std::move(why);
    return other;
}

Mpi Mpi::over(std::string name, std::vector<std::string> transport, MpiLaunch launch) const {
    Mpi other = *this;
    other.name_ = std::move(name);
    other.transport_ = std::move(transport);
    other.launch_ = std::move(launch);
    return other;
}

Result<std::vector<Point>> Mpi::measure(const Job& job) const {
    const int second = job.one_core ? cores_.first : cores_.second;
    std::vector<std::string> words{job.what, fmt::format("{},{}", cores_.first, second),
                                   fmt::format("{}", seconds_per_size)};
    for (const std::size_t bytes : job.sizes)
        words.push_back(std::to_string(bytes));
    return launch(job, std::move(words));
}

Result<std::vector<Point>> Mpi::launch(const Job& job, std::vector<std::string> words) const {
    Command command;
    command.arguments = {launcher_, "-n", std::to_string(job.ranks)};
    if (kind_ == MpiKind::OpenMpi) {
        // The program pins itself, to the same cores as everybody else.
        command.arguments.insert(command.arguments.end(), {"--bind-to", "none"});
        if (::geteuid() == 0) command.arguments.emplace_back("--allow-run-as-root");
    }
    command.arguments.insert(command.arguments.end(), transport_.begin(), transport_.end());
    command.arguments.push_back(program(job.program));
    command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    const std::uint64_t milliseconds = 30'000 + 2'000 * job.sizes.size();
    auto output = launch_(command, Deadline::after_milliseconds(milliseconds));
    if (!output) return std::move(output).error();
    auto points = parse_points(output.value());
    if (points && points.value().size() != job.sizes.size()) {
        return {base::Code::ProtocolViolation,
                fmt::format("{}: {} values for {} sizes", to_text(command), points.value().size(),
                            job.sizes.size())};
    }
    return points;
}

Probe Mpi::probe(Job job, Quantity quantity) const {
    return {name_, quantity, missing_, [self = *this, job = std::move(job)]() -> Result<double> {
                auto points = self.measure(job);
                if (!points) return std::move(points).error();
                return points.value().front().value;
            }};
}

Probe Mpi::latency(std::size_t bytes) const {
    return probe({.what = "latency", .sizes = {bytes}}, Quantity::OneWayMicroseconds);
}

Probe Mpi::message_rate(std::size_t bytes) const {
    return probe({.what = "rate", .sizes = {bytes}}, Quantity::MessagesPerSecond);
}

Probe Mpi::stream(std::size_t bytes) const {
    return in_bytes_per_second(message_rate(bytes), bytes);
}

Probe Mpi::one_core_latency(std::size_t bytes) const {
    return probe({.what = "latency", .one_core = true, .sizes = {bytes}},
                 Quantity::OneWayMicroseconds);
}

Probe Mpi::allreduce(std::size_t bytes, unsigned ranks) const {
    return probe({.program = "collective", .what = "allreduce", .ranks = ranks, .sizes = {bytes}},
                 Quantity::OneWayMicroseconds);
}

Probe Mpi::barrier(unsigned ranks) const {
    return probe({.program = "collective", .what = "barrier", .ranks = ranks, .sizes = {8}},
                 Quantity::OneWayMicroseconds);
}

Probe Mpi::blocked_cpu() const {
    return {name_, Quantity::Percent, missing_, [self = *this]() -> Result<double> {
                auto points = self.launch({.program = "blocked", .what = {}, .sizes = {1}},
                                          {fmt::format("{}", seconds_blocked)});
                if (!points) return std::move(points).error();
                return points.value().front().value;
            }};
}

Curve Mpi::latency_curve(const std::vector<std::size_t>& sizes) const {
    return {name_, Quantity::OneWayMicroseconds, missing_, {[self = *this, sizes] {
                return self.measure({.what = "latency", .sizes = sizes});
            }}};
}

Curve Mpi::stream_curve(const std::vector<std::size_t>& sizes) const {
    return {name_,
            Quantity::BytesPerSecond,
            missing_,
            {[self = *this, sizes]() -> Result<std::vector<Point>> {
                auto points = self.measure({.what = "rate", .sizes = sizes});
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
