// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "bare/bare_limits.hpp"
#include "bare/pinning.hpp"
#include "bare/shared_mapping.hpp"
#include "base/clock.hpp"
#include "base/cpu.hpp"

namespace via::bare {

namespace {

using base::Deadline;

struct alignas(base::cache_line) Line {
    std::atomic<std::uint32_t> number{0};
};

/// What one bounce costs depends on where the line lives: its address chooses the slice of the last
/// cache that keeps track of it. So the samples go round many places, each in a page of its own.
constexpr std::size_t places = 64;
struct alignas(4096) Place {
    // Neighbouring lines are fetched in pairs by some processors, hence the distance.
    alignas(4 * base::cache_line) Line to_echo;
    alignas(4 * base::cache_line) Line to_measure;
};
struct Table {
    Place place[places];
    Line echo_ready;
};

enum class Waiting { Spin, Relax, Yield };

/// True when `line` shows `number`; false when the deadline passed first.
template <Waiting Way>
bool await(const Line& line, std::uint32_t number, Deadline deadline) {
    constexpr int looks_per_clock = Way == Waiting::Yield ? 1 << 12 : 1 << 20;
    for (;;) {
        for (int look = 0; look < looks_per_clock; ++look) {
            if (line.number.load(std::memory_order_acquire) == number) return true;
            if constexpr (Way == Waiting::Yield) ::sched_yield();
            if constexpr (Way == Waiting::Relax) base::cpu_relax();
        }
        if (deadline.expired()) return false;
    }
}

/// Ends a forked child whatever way the scope is left.
class Child {
  public:
    explicit Child(pid_t pid) : pid_(pid) {}
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        ::kill(pid_, SIGKILL);
        while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

  private:
    pid_t pid_;
};

template <Waiting Way>
[[noreturn]] void echo(Table& table, const PingPongOptions& options, bool one_line, int core,
                       Deadline deadline) {
    if (!pin_to(core)) ::_exit(1);
    table.echo_ready.number.store(1, std::memory_order_release);
    std::uint32_t number = 0;
    for (std::uint64_t sample = 0; sample < options.warm_up_samples + options.samples; ++sample) {
        Place& place = table.place[sample % places];
        Line& out = one_line ? place.to_echo : place.to_measure;
        for (std::uint64_t trip = 0; trip < options.round_trips; ++trip) {
            if (!await<Way>(place.to_echo, ++number, deadline)) ::_exit(2);
            out.number.store(++number, std::memory_order_release);
        }
    }
    ::_exit(0);
}

template <Waiting Way>
base::Result<std::vector<double>> ping_pong(const PingPongOptions& options, bool one_line) {
    if (options.samples == 0 || options.round_trips == 0) {
        return {base::Code::InvalidArgument,
                "a bare ping-pong needs at least one sample of one round trip"};
    }
    auto mapping = SharedMapping::create(sizeof(Table));
    if (!mapping) return std::move(mapping).error();
    static_assert(sizeof(Table) % 4096 == 0);
    auto& table = *new (mapping.value().data()) Table;

    std::vector<double> one_way(options.samples);
    const int echo_core = Way == Waiting::Yield ? options.cores.first : options.cores.second;
    const Deadline deadline = Deadline::after_milliseconds(options.deadline_seconds * 1000);

    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return base::system_error(errno, "start the second process of a bare ping-pong");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(3);
        echo<Way>(table, options, one_line, echo_core, deadline);
    }
    const Child child(pid);
    auto pinned = PinnedScope::on(options.cores.first);
    if (!pinned) return std::move(pinned).error();

    const auto gave_up = [&] {
        return base::Error{base::Code::Timeout,
                           "the second process of a bare ping-pong on processors " +
                               std::to_string(options.cores.first) + " and " +
                               std::to_string(echo_core) + " did not answer within " +
                               std::to_string(options.deadline_seconds) +
                               " s (may this process use both?)"};
    };
    if (!await<Waiting::Yield>(table.echo_ready, 1, deadline)) return gave_up();

    std::uint32_t number = 0;
    std::uint64_t sample_count = 0;
    const auto one_sample = [&]() -> bool {
        Place& place = table.place[sample_count++ % places];
        const Line& in = one_line ? place.to_echo : place.to_measure;
        for (std::uint64_t trip = 0; trip < options.round_trips; ++trip) {
            place.to_echo.number.store(++number, std::memory_order_release);
            if (!await<Way>(in, ++number, deadline)) return false;
        }
        return true;
    };
    for (std::uint64_t sample = 0; sample < options.warm_up_samples; ++sample) {
        if (!one_sample()) return gave_up();
    }
    const auto hops = static_cast<double>(2 * options.round_trips);
    base::Nanoseconds begin = base::monotonic_now();
    for (double& value : one_way) {
        if (!one_sample()) return gave_up();
        const base::Nanoseconds end = base::monotonic_now();
        value = static_cast<double>(end - begin) / hops;
        begin = end;
    }
    return one_way;
}

/// Whether a pause between two looks helps or hurts depends on the processor; the limit is the
/// better.
base::Result<std::vector<double>> better_spin(const PingPongOptions& options, bool one_line) {
    auto busy = ping_pong<Waiting::Spin>(options, one_line);
    if (!busy) return busy;
    auto relaxed = ping_pong<Waiting::Relax>(options, one_line);
    if (!relaxed) return relaxed;
    return median(busy.value()) <= median(relaxed.value()) ? busy : relaxed;
}

}  // namespace

base::Result<std::vector<double>> one_line_ping_pong(const PingPongOptions& options) {
    return better_spin(options, true);
}

base::Result<std::vector<double>> two_line_ping_pong(const PingPongOptions& options) {
    return better_spin(options, false);
}

base::Result<std::vector<double>> yield_ping_pong(const PingPongOptions& options) {
    return ping_pong<Waiting::Yield>(options, true);
}

}  // namespace via::bare
