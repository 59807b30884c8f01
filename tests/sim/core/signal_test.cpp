// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/signal.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace via::sim;

namespace {

using Notes = std::vector<std::string>;

void note(Simulation& simulation, Notes& notes, const std::string& what) {
    notes.push_back(what + " at " + std::to_string(simulation.now()));
}

Task<> wait_for(Simulation& simulation, Signal& signal, Time come, std::string name, Notes& notes) {
    co_await simulation.until(come);
    co_await signal.wait();
    note(simulation, notes, name);
}

Task<> wait_with_deadline(Simulation& simulation, Signal& signal, Time deadline, std::string name,
                          Notes& notes) {
    const bool came = co_await signal.wait(deadline);
    note(simulation, notes, name + (came ? " woken" : " too late"));
}

Task<> act(Simulation& simulation, Signal& signal, Time when, void (*action)(Signal&)) {
    co_await simulation.until(when);
    action(signal);
}

void raise(Signal& signal) {
    signal.raise();
}
void pulse(Signal& signal) {
    signal.pulse();
}
void raise_and_clear(Signal& signal) {
    signal.raise();
    signal.clear();
}

TEST(Signal, OnceRaisedLetsAllThrough) {
    Simulation simulation;
    Signal signal(simulation);
    Notes notes;
    simulation.spawn(wait_for(simulation, signal, 2, "b", notes));
    simulation.spawn(wait_for(simulation, signal, 1, "a", notes));
    simulation.spawn(wait_for(simulation, signal, 9, "late", notes));
    simulation.spawn(act(simulation, signal, 5, raise));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a at 5", "b at 5", "late at 9"})) << "in the order of coming";
    EXPECT_TRUE(signal.is_raised());
}

TEST(Signal, TheWokenRunAfterWhatWasAskedForBefore) {
    Simulation simulation;
    Signal signal(simulation);
    Signal raised(simulation);
    raised.raise();
    Notes notes;
    simulation.spawn(wait_for(simulation, signal, 0, "woken", notes));
    simulation.spawn(act(simulation, signal, 5, raise));
    simulation.spawn(wait_for(simulation, raised, 5, "planned", notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"planned at 5", "woken at 5"}));
}

TEST(Signal, APulseIsSeenOnlyByThoseWhoWait) {
    Simulation simulation;
    Signal signal(simulation);
    Notes notes;
    simulation.spawn(wait_for(simulation, signal, 0, "a", notes));
    simulation.spawn(act(simulation, signal, 5, pulse));
    simulation.spawn(wait_for(simulation, signal, 6, "b", notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a at 5"}));
    EXPECT_EQ(simulation.processes(), 1U);
    signal.pulse();
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a at 5", "b at 6"}));
}

TEST(Signal, WhoIsWokenIsWokenEvenIfItIsCleared) {
    Simulation simulation;
    Signal signal(simulation);
    Notes notes;
    simulation.spawn(wait_for(simulation, signal, 0, "a", notes));
    simulation.spawn(act(simulation, signal, 5, raise_and_clear));
    simulation.spawn(wait_for(simulation, signal, 6, "b", notes));
    simulation.spawn(act(simulation, signal, 7, raise_and_clear));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a at 5", "b at 7"}));
    EXPECT_FALSE(signal.is_raised());
}

TEST(Signal, AWaitCanHaveADeadline) {
    Simulation simulation;
    Signal signal(simulation);
    Notes notes;
    simulation.spawn(wait_with_deadline(simulation, signal, 10, "a", notes));
    simulation.spawn(wait_with_deadline(simulation, signal, 1'000'000, "b", notes));
    simulation.spawn(wait_with_deadline(simulation, signal, 30, "c", notes));
    simulation.spawn(wait_with_deadline(simulation, signal, 15, "d", notes));
    simulation.spawn(wait_with_deadline(simulation, signal, 0, "e", notes));
    simulation.spawn(act(simulation, signal, 20, raise));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"e too late at 0", "a too late at 10", "d too late at 15",
                            "b woken at 20", "c woken at 20"}));
    EXPECT_EQ(simulation.now(), 20) << "a deadline that is not needed is no event";
}

TEST(Signal, ADeadlineInThePastIsNoHindranceWhereItIsRaised) {
    Simulation simulation;
    Signal signal(simulation);
    signal.raise();
    ASSERT_TRUE(simulation.run_until(10).ok());
    Notes notes;
    simulation.spawn(wait_with_deadline(simulation, signal, 5, "a", notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a woken at 10"}));
}

TEST(Signal, AtTheSameTimeTheEarlierAskedForWins) {
    Simulation simulation;
    Signal signal(simulation);
    Notes notes;
    simulation.spawn(act(simulation, signal, 10, pulse));
    simulation.spawn(wait_with_deadline(simulation, signal, 10, "a", notes));
    ASSERT_TRUE(simulation.run().ok());
    simulation.spawn(wait_with_deadline(simulation, signal, 20, "b", notes));
    simulation.spawn(act(simulation, signal, 20, pulse));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{"a woken at 10", "b too late at 20"}));
}

TEST(Signal, MayGoBeforeThoseWhoWait) {
    Simulation simulation;
    Notes notes;
    {
        Signal signal(simulation);
        simulation.spawn(wait_with_deadline(simulation, signal, 10, "a", notes));
        simulation.spawn(wait_for(simulation, signal, 0, "b", notes));
        ASSERT_TRUE(simulation.run_until(5).ok());
    }
    EXPECT_EQ(simulation.processes(), 2U);
}

}  // namespace
