// SPDX-License-Identifier: BSD-3-Clause
// Systems whose behaviour can be computed by hand or is known from queueing theory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <vector>

#include "na/seeded.hpp"
#include "sim/core/mailbox.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"

using namespace via::sim;
using via::test::Random;
using via::test::repeated;

namespace {

Task<> pass(Simulation& simulation, std::deque<Resource>& stages, const std::vector<Time>& times,
            Time& end) {
    for (std::size_t i = 0; i < stages.size(); ++i)
        co_await stages[i].use(times[i]);
    end = simulation.now();
}

/// N messages that are there at once, through stages of fixed times with room between them: the
/// first takes the sum, and from then on the slowest stage gives one after the other.
TEST(Pipeline, RunsAtThePaceOfItsSlowestStage) {
    Random random(11);
    for (int round = 0; round < 20; ++round) {
        Simulation simulation;
        std::deque<Resource> stages;
        std::vector<Time> times;
        for (std::uint32_t i = random.between(1, 8); i > 0; --i) {
            stages.emplace_back(simulation, "stage");
            times.push_back(random.between(1, 1000) * nanosecond);
        }
        constexpr Time messages = 100;
        Time end = 0;
        for (Time i = 0; i < messages; ++i)
            simulation.spawn(pass(simulation, stages, times, end));
        ASSERT_TRUE(simulation.run().ok());
        const Time sum = std::accumulate(times.begin(), times.end(), Time{0});
        const Time slowest = *std::max_element(times.begin(), times.end());
        EXPECT_EQ(end, sum + (messages - 1) * slowest);
        for (std::size_t i = 0; i < stages.size(); ++i)
            EXPECT_EQ(stages[i].statistics().busy, messages * times[i]);
    }
}

Task<> stage(Simulation& simulation, Mailbox<int>& in, Mailbox<int>& out, Time time) {
    for (;;) {
        const int message = co_await in.take();
        co_await simulation.delay(time);
        co_await out.put(message);
    }
}

Task<> feed(Mailbox<int>& out, int messages) {
    for (int message = 0; message < messages; ++message)
        co_await out.put(message);
}

Task<> drain(Simulation& simulation, Mailbox<int>& in, int messages, Time& end) {
    for (int expected = 0; expected < messages; ++expected) {
        const int message = co_await in.take();
        EXPECT_EQ(message, expected);
    }
    end = simulation.now();
}

/// The same with processes for stages and one buffer between two of them: with fixed times the
/// back-pressure costs nothing.
TEST(Pipeline, OfProcessesWithBuffersRunsAtTheSamePace) {
    Simulation simulation;
    const std::vector<Time> times{3, 7, 2, 11, 5};
    constexpr int messages = 200;
    std::deque<Mailbox<int>> between;
    for (std::size_t i = 0; i <= times.size(); ++i)
        between.emplace_back(simulation, 1);
    for (std::size_t i = 0; i < times.size(); ++i)
        simulation.spawn(stage(simulation, between[i], between[i + 1], times[i]));
    Time end = 0;
    simulation.spawn(feed(between.front(), messages));
    simulation.spawn(drain(simulation, between.back(), messages, end));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(end, (3 + 7 + 2 + 11 + 5) + (messages - 1) * 11);
    EXPECT_EQ(simulation.processes(), times.size());
}

Task<> arrive_at_random(Simulation& simulation, Resource& server, double mean_gap, Time service,
                        std::uint32_t customers) {
    Random random(5);
    for (std::uint32_t i = 0; i < customers; ++i) {
        const double uniform = (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53;
        co_await simulation.delay(std::llround(-std::log(uniform) * mean_gap));
        simulation.spawn(server.use(service));
    }
}

/// Random arrivals, fixed service time (M/D/1): the mean wait is load * service / (2 (1 - load)),
/// by Pollaczek and Khinchin.
TEST(Queue, OfRandomArrivalsWaitsAsTheorySays) {
    constexpr Time service = 1000;
    for (const double load : {0.3, 0.5, 0.8}) {
        Simulation simulation;
        Resource server(simulation, "server");
        simulation.spawn(
            arrive_at_random(simulation, server, service / load, service, repeated(400'000)));
        ASSERT_TRUE(simulation.run().ok());
        const ResourceStatistics seen = server.statistics();
        const double mean_wait =
            static_cast<double>(seen.waited) / static_cast<double>(seen.acquisitions);
        const double theory = load * service / (2 * (1 - load));
        const double tolerance = via::test::sanitized ? 0.1 : 0.03;  // fewer customers there
        EXPECT_NEAR(seen.utilisation, load, tolerance * load);
        EXPECT_NEAR(mean_wait, theory, tolerance * theory) << "load " << load;
        // Who arrives at random finds the server busy as often as it is busy.
        EXPECT_NEAR(static_cast<double>(seen.waits) / static_cast<double>(seen.acquisitions), load,
                    tolerance * load);
    }
}

Task<> use_for_ever(Simulation& simulation, Requester bus, Time burst, Time& used) {
    for (;;) {
        const Hold hold = co_await bus.acquire();
        co_await simulation.delay(burst);
        used += burst;
    }
}

/// Round robin divides a bus by turns, not by time: who takes longer bursts gets more of it.
TEST(Bus, IsSharedByTurns) {
    Simulation simulation;
    Resource bus(simulation, "bus");
    const std::vector<Time> bursts{10, 20, 70};
    std::vector<Time> used(bursts.size(), 0);
    for (std::size_t i = 0; i < bursts.size(); ++i) {
        simulation.spawn(use_for_ever(simulation, bus.add_requester("master"), bursts[i], used[i]));
    }
    ASSERT_TRUE(simulation.run_until(100'000).ok());
    EXPECT_EQ(used, (std::vector<Time>{10'000, 20'000, 70'000}));
    EXPECT_DOUBLE_EQ(bus.statistics().utilisation, 1.0);
}

}  // namespace
