// SPDX-License-Identifier: BSD-3-Clause
// How many events a second the core of the simulator handles on one processor: bare timers,
// processes that only wait, and processes that queue for resources.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/result.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "spread.hpp"

namespace {

using namespace via;
using namespace via::bench;
using base::Result;

struct Options {
    std::uint64_t events = 1'000'000;
    std::size_t processes = 256;
    std::size_t repetitions = 7;
    bool json = false;
};

/// The time this thread has run, so that other programs on the machine do not count.
double processor_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// From 1 ns to 1 µs, different for each process and each time: a heap is not to be spoilt by
/// order.
class Periods {
  public:
    explicit Periods(std::uint64_t seed) : state_(2 * seed + 1) {}
    [[nodiscard]] sim::Time next() noexcept {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<sim::Time>(state_ >> 44) + sim::nanosecond;
    }

  private:
    std::uint64_t state_;
};

class Timer {
  public:
    Timer(sim::Simulation& simulation, std::uint64_t seed)
        : simulation_(simulation), periods_(seed) {}
    void arm() { simulation_.call_at(simulation_.now() + periods_.next(), fire, this); }

  private:
    static void fire(void* timer) { static_cast<Timer*>(timer)->arm(); }

    sim::Simulation& simulation_;
    Periods periods_;
};

sim::Task<> wait_again_and_again(sim::Simulation& simulation, std::uint64_t seed) {
    Periods periods(seed);
    for (;;)
        co_await simulation.delay(periods.next());
}

/// What a message does in a NIC: stage by stage, each on a resource that others want too.
sim::Task<> pass_stages(std::deque<sim::Resource>& stages, std::uint64_t seed) {
    Periods periods(seed);
    for (std::uint64_t message = 0;; ++message) {
        for (sim::Resource& stage : stages)
            co_await stage.use(periods.next(), "stage", message);
    }
}

/// Events a second; all of it is endless, so a run ends with the limit of events.
double rate_of(sim::Simulation& simulation) {
    const double begin = processor_seconds();
    const Result<void> run = simulation.run();
    const double seconds = processor_seconds() - begin;
    return run ? std::nan("") : static_cast<double>(simulation.events()) / seconds;
}

double timers(const Options& options) {
    sim::Simulation simulation(options.events);
    std::deque<Timer> all;
    for (std::size_t i = 0; i < options.processes; ++i)
        all.emplace_back(simulation, i).arm();
    return rate_of(simulation);
}

double delays(const Options& options) {
    sim::Simulation simulation(options.events);
    for (std::size_t i = 0; i < options.processes; ++i)
        simulation.spawn(wait_again_and_again(simulation, i));
    return rate_of(simulation);
}

double resources(const Options& options) {
    sim::Simulation simulation(options.events);
    std::deque<sim::Resource> stages;
    for (const char* name : {"host", "bus", "processor", "memory", "link"})
        stages.emplace_back(simulation, name);
    for (std::size_t i = 0; i < options.processes; ++i)
        simulation.spawn(pass_stages(stages, i));
    return rate_of(simulation);
}

struct Workload {
    const char* name;
    double (*measure)(const Options& options);
};

constexpr std::array<Workload, 3> workloads{
    {{"timers", timers}, {"delays", delays}, {"resources", resources}}};

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Events a second in the core of the simulator, per second of processor time.",
                 "sim_events");
    app.add_option("--events", options.events, "events in each run")
        ->capture_default_str()
        ->check(CLI::Range(1'000, 1'000'000'000));
    app.add_option("--processes", options.processes, "timers or processes at a time")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000'000));
    app.add_option("--repetitions", options.repetitions, "runs of each workload, interleaved")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000));
    app.add_flag("--json", options.json, "print JSON");
    CLI11_PARSE(app, argc, argv);

    std::array<std::vector<double>, workloads.size()> rates;
    for (std::size_t repetition = 0; repetition < options.repetitions; ++repetition) {
        for (std::size_t i = 0; i < workloads.size(); ++i)
            rates[i].push_back(workloads[i].measure(options));
    }

    nlohmann::json report{{"events", options.events}, {"processes", options.processes}};
    for (std::size_t i = 0; i < workloads.size(); ++i) {
        const Spread spread = spread_of(rates[i]);
        if (spread.count < options.repetitions) {
            fmt::print(stderr, "sim_events: {} ended by itself, so it was not measured\n",
                       workloads[i].name);
            return 1;
        }
        report[workloads[i].name] = {{"events_per_second", spread.median},
                                     {"lower_quartile", spread.lower_quartile},
                                     {"upper_quartile", spread.upper_quartile},
                                     {"repetitions", spread.count}};
        if (!options.json) {
            fmt::print("{:<10} {:6.2f} million events a second ({:.2f} to {:.2f})\n",
                       workloads[i].name, spread.median / 1e6, spread.lower_quartile / 1e6,
                       spread.upper_quartile / 1e6);
        }
    }
    if (options.json) fmt::print("{}\n", report.dump());
    return 0;
}
