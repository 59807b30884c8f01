// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/simulation.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "na/seeded.hpp"

using namespace via::sim;
using via::test::Random;

namespace {

using Notes = std::vector<std::string>;

Task<> wait_and_note(Simulation& simulation, Time first, Time second, std::string name,
                     Notes& notes) {
    co_await simulation.delay(first);
    notes.push_back(name + " at " + std::to_string(simulation.now()));
    co_await simulation.delay(second);
    notes.push_back(name + " at " + std::to_string(simulation.now()));
}

TEST(Simulation, HappensInOrderOfTimeThenOfAsking) {
    Simulation simulation;
    Notes notes;
    simulation.spawn(wait_and_note(simulation, 10, 10, "a", notes));
    simulation.spawn(wait_and_note(simulation, 5, 15, "b", notes));
    simulation.spawn(wait_and_note(simulation, 10, 0, "c", notes));
    EXPECT_TRUE(notes.empty()) << "spawned is not yet run";
    ASSERT_TRUE(simulation.run().ok());
    // At 20 b was asked for at 5, a only at 10. The delay of 0 at 10 comes after both a and c.
    EXPECT_EQ(notes, (Notes{"b at 5", "a at 10", "c at 10", "c at 10", "b at 20", "a at 20"}));
    EXPECT_EQ(simulation.now(), 20);
    EXPECT_EQ(simulation.events(), 9U);
    EXPECT_EQ(simulation.processes(), 0U);
}

Task<> spawn_and_note(Simulation& simulation, Notes& notes) {
    co_await simulation.delay(5);
    simulation.spawn(wait_and_note(simulation, 0, 1, "child", notes));
    notes.emplace_back("parent");
    co_await simulation.delay(0);
    notes.emplace_back("parent again");
}

TEST(Simulation, ASpawnedProcessRunsAfterWhatWasAskedForBefore) {
    Simulation simulation;
    Notes notes;
    simulation.spawn(spawn_and_note(simulation, notes));
    simulation.spawn(wait_and_note(simulation, 5, 0, "other", notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"parent", "other at 5", "parent again", "other at 5", "child at 5",
                            "child at 6"}));
}

TEST(Simulation, RunsUntilAMomentAndOn) {
    Simulation simulation;
    Notes notes;
    simulation.spawn(wait_and_note(simulation, 10, 10, "a", notes));
    ASSERT_TRUE(simulation.run_until(9).ok());
    EXPECT_TRUE(notes.empty());
    EXPECT_EQ(simulation.now(), 9);
    ASSERT_TRUE(simulation.run_until(10).ok());
    EXPECT_EQ(notes, (Notes{"a at 10"})) << "the moment itself included";
    ASSERT_TRUE(simulation.run_until(15).ok());
    simulation.spawn(wait_and_note(simulation, 5, 0, "b", notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a at 10", "a at 20", "b at 20", "b at 20"}));
    ASSERT_TRUE(simulation.run_until(100).ok());
    EXPECT_EQ(simulation.now(), 100);
    EXPECT_THROW(static_cast<void>(simulation.run_until(99)), std::invalid_argument);
}

TEST(Simulation, TakesSingleSteps) {
    Simulation simulation;
    Notes notes;
    EXPECT_FALSE(simulation.step());
    simulation.spawn(wait_and_note(simulation, 10, 10, "a", notes));
    EXPECT_TRUE(simulation.step());
    EXPECT_EQ(simulation.now(), 0);
    EXPECT_TRUE(simulation.step());
    EXPECT_EQ(notes, (Notes{"a at 10"}));
    EXPECT_TRUE(simulation.step());
    EXPECT_FALSE(simulation.step());
    EXPECT_EQ(simulation.now(), 20);
}

Task<> go_round_in_circles(Simulation& simulation, Time step) {
    for (;;)
        co_await simulation.delay(step);
}

TEST(Simulation, StopsAtTheLimitOfEventsAndSaysSo) {
    Simulation simulation(1000);
    simulation.spawn(go_round_in_circles(simulation, 7));
    const via::base::Result<void> run = simulation.run();
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().code, via::base::Code::OutOfResources);
    EXPECT_EQ(run.error().sentence,
              "the simulation reached its limit of 1000 events at 6993 ps (processes left: 1): if "
              "none of them runs in circles, raise the limit");
    EXPECT_EQ(simulation.events(), 1000U);
    simulation.set_event_limit(1001);
    EXPECT_FALSE(simulation.run_until(10000).ok());
    EXPECT_EQ(simulation.now(), 7000);
    simulation.set_event_limit(Simulation::default_event_limit);
    EXPECT_TRUE(simulation.run_until(10000).ok());
}

TEST(Simulation, StopsAtTheLimitAlsoWhereTimeStandsStill) {
    Simulation simulation(1000);
    simulation.spawn(go_round_in_circles(simulation, 0));
    EXPECT_FALSE(simulation.run().ok());
    EXPECT_FALSE(simulation.run_until(1).ok());
    EXPECT_EQ(simulation.now(), 0);
}

TEST(Simulation, AsManyEventsAsTheLimitAreAllowed) {
    Simulation simulation(3);
    Notes notes;
    simulation.spawn(wait_and_note(simulation, 1, 1, "a", notes));
    EXPECT_TRUE(simulation.run().ok());
    EXPECT_EQ(simulation.events(), 3U);
}

Task<> delay_badly(Simulation& simulation, Time first, Time second) {
    co_await simulation.delay(first);
    co_await simulation.delay(second);
}

Task<> wait_until(Simulation& simulation, Time first, Time second) {
    co_await simulation.until(first);
    co_await simulation.until(second);
}

TEST(Simulation, RefusesTimesThatCanNotBe) {
    for (const Time bad : {Time{-1}, -forever, forever}) {
        Simulation simulation;
        simulation.spawn(delay_badly(simulation, 5, bad));
        EXPECT_THROW(static_cast<void>(simulation.run()), std::invalid_argument);
        EXPECT_EQ(simulation.now(), 5);
    }
    Simulation simulation;
    simulation.spawn(wait_until(simulation, 5, 5));
    EXPECT_TRUE(simulation.run().ok());
    simulation.spawn(wait_until(simulation, 7, 6));
    EXPECT_THROW(static_cast<void>(simulation.run()), std::invalid_argument);
    EXPECT_THROW(simulation.call_at(6, nullptr, nullptr), std::invalid_argument);
}

struct Call {
    Simulation& simulation;
    std::vector<Time>& times;

    static void happen(void* context) {
        auto& [simulation, times] = *static_cast<Call*>(context);
        times.push_back(simulation.now());
        if (times.size() < 3) simulation.call_at(simulation.now() + 4, happen, context);
    }
};

TEST(Simulation, CallsFunctionsAtTheirTime) {
    Simulation simulation;
    std::vector<Time> times;
    Call call{simulation, times};
    simulation.call_at(0, Call::happen, &call);
    const Simulation::Ticket ticket = simulation.call_at(1, Call::happen, &call);
    EXPECT_TRUE(simulation.cancel(ticket));
    EXPECT_FALSE(simulation.cancel(ticket));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(times, (std::vector<Time>{0, 4, 8}));
}

Task<> walk(Simulation& simulation, std::uint64_t seed, std::uint32_t steps, Time& last,
            bool& sane) {
    Random random(seed);
    for (std::uint32_t i = 0; i < steps; ++i) {
        const Time step = random.below(1000);
        const Time expected = simulation.now() + step;
        co_await simulation.delay(step);
        sane = sane && simulation.now() == expected && last <= expected;
        last = expected;
    }
}

class SimulationProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SimulationProperty, TimeNeverGoesBackAndNobodyIsLate) {
    Simulation simulation;
    Time last = 0;
    bool sane = true;
    for (std::uint64_t i = 0; i < 100; ++i)
        simulation.spawn(walk(simulation, GetParam() * 100 + i, 100, last, sane));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_TRUE(sane);
    EXPECT_EQ(simulation.events(), 100U * 101U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationProperty, testing::Range<std::uint64_t>(1, 11));

}  // namespace
