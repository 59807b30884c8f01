// SPDX-License-Identifier: BSD-3-Clause
// How much processor time a process uses while it is blocked in VipCQWait, with a VI connected and
// nothing coming: the time of all its threads, of its peer's, and of the kernel agent.
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "two_processes.hpp"
#include "vi_side.hpp"

namespace {

using namespace via;
using namespace via::bench;
using base::Deadline;
using base::Result;

struct Options {
    std::string device = "shm0";
    std::uint64_t milliseconds = 2000;
    bool json = false;
};

struct Shares {
    double own = 0;  ///< percent of one processor
    double peer = 0;
    double agent = 0;
};

constexpr std::uint64_t deadline_milliseconds = 30'000;

/// Of all threads of this process.
double own_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Of another process's clock, threads included.
Result<double> seconds_of(pid_t process) {
    clockid_t clock{};
    timespec time{};
    if (const int failure = ::clock_getcpuclockid(process, &clock); failure != 0) {
        return base::system_error(failure, "find the clock of process " + std::to_string(process));
    }
    if (::clock_gettime(clock, &time) != 0) {
        return base::system_error(errno, "read the clock of process " + std::to_string(process));
    }
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Connected, and silent until the parent is done.
Result<void> silent_peer(const Options& options, const std::string& meeting_point,
                         Companion& parent) {
    const Deadline deadline =
        Deadline::after_milliseconds(deadline_milliseconds + options.milliseconds);
    auto side = ViSide::open(options.device, Part::Server, meeting_point, 1, true);
    if (!side) return std::move(side).error();
    if (auto connected = side.value().connect_one(deadline); !connected) return connected;
    if (auto greeted = side.value().greet(deadline); !greeted) return greeted;
    return parent.meet(deadline);
}

Result<Shares> measure(const Options& options) {
    const std::string meeting_point = fmt::format("blocked-cpu-{}", ::getpid());
    auto companion = Companion::start(
        [&](Companion& parent) { return silent_peer(options, meeting_point, parent); });
    if (!companion) return std::move(companion).error();
    const Deadline deadline =
        Deadline::after_milliseconds(deadline_milliseconds + options.milliseconds);
    auto side = ViSide::open(options.device, Part::Client, meeting_point, 1, true);
    if (!side) return std::move(side).error();
    if (auto connected = side.value().connect_one(deadline); !connected)
        return std::move(connected).error();
    if (auto greeted = side.value().greet(deadline); !greeted) return std::move(greeted).error();
    auto agent = agent_pid();
    if (!agent) return std::move(agent).error();

    const base::Nanoseconds begin = base::monotonic_now();
    const double own_before = own_seconds();
    auto peer_before = seconds_of(companion.value().pid());
    auto agent_before = seconds_of(agent.value());
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN is_receive = VIP_FALSE;
    const VIP_RETURN code =
        VipCQWait(side.value().completion_queue(), static_cast<VIP_ULONG>(options.milliseconds),
                  &vi, &is_receive);
    const double own_after = own_seconds();
    auto peer_after = seconds_of(companion.value().pid());
    auto agent_after = seconds_of(agent.value());
    const double seconds = static_cast<double>(base::monotonic_now() - begin) / 1e9;
    if (code != VIP_TIMEOUT) {
        return base::Error{
            base::Code::System,
            fmt::format("VipCQWait should have timed out and gave {}", VipxReturnName(code))};
    }
    for (auto* clock : {&peer_before, &agent_before, &peer_after, &agent_after}) {
        if (!*clock) return std::move(*clock).error();
    }
    // A wait that came back early was no wait.
    if (seconds < static_cast<double>(options.milliseconds) / 1000 * 0.9) {
        return base::Error{base::Code::System,
                           fmt::format("VipCQWait came back after {:.3f} s", seconds)};
    }
    if (auto met = companion.value().meet(deadline); !met) return std::move(met).error();
    if (auto joined = companion.value().join(deadline); !joined) return std::move(joined).error();
    const auto percent = [&](double before, double after) {
        return (after - before) / seconds * 100;
    };
    return Shares{percent(own_before, own_after), percent(peer_before.value(), peer_after.value()),
                  percent(agent_before.value(), agent_after.value())};
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Processor time of a process blocked in VipCQWait.", "blocked_cpu");
    app.add_option("--device", options.device, "the NIC")->capture_default_str();
    app.add_option("--milliseconds", options.milliseconds, "how long it is blocked")
        ->capture_default_str()
        ->check(CLI::Range(1, 600'000));
    app.add_flag("--json", options.json, "print JSON");
    CLI11_PARSE(app, argc, argv);

    auto shares = measure(options);
    if (!shares) {
        fmt::print(stderr, "blocked_cpu: {}\n", shares.error().sentence);
        return 1;
    }
    const auto& [own, peer, agent] = shares.value();
    if (options.json) {
        fmt::print("{}\n", nlohmann::json{{"milliseconds", options.milliseconds},
                                          {"cpu_percent", own},
                                          {"peer_cpu_percent", peer},
                                          {"agent_cpu_percent", agent}}
                               .dump());
    } else {
        fmt::print(
            "blocked in VipCQWait: {:.4f} % of a processor; silent peer {:.4f} %, "
            "kernel agent {:.4f} %\n",
            own, peer, agent);
    }
    return 0;
}
