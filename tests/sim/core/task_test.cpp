// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/task.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/core/all.hpp"
#include "sim/core/simulation.hpp"

using namespace via::sim;

namespace {

Task<int> sum_slowly(Simulation& simulation, int a, int b) {
    co_await simulation.delay(10);
    co_return a + b;
}

Task<int> at_once(int value) {
    co_return value;
}

Task<std::unique_ptr<std::string>> text(Simulation& simulation, std::string letters) {
    co_await simulation.delay(1);
    co_return std::make_unique<std::string>(std::move(letters));
}

Task<> add_up(Simulation& simulation, int& result) {
    const int first = co_await sum_slowly(simulation, 1, 2);
    const int second = co_await at_once(4);
    const int third = co_await sum_slowly(simulation, first, second);
    result = third;
}

TEST(Task, GivesItsValueToWhoAwaitsIt) {
    Simulation simulation;
    int result = 0;
    simulation.spawn(add_up(simulation, result));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(result, 7);
    EXPECT_EQ(simulation.now(), 20);
}

Task<> take_text(Simulation& simulation, std::string& result) {
    const std::unique_ptr<std::string> first =
        co_await text(simulation, "longer than a string holds in itself");
    Task<std::unique_ptr<std::string>> named = text(simulation, "!");
    const std::unique_ptr<std::string> second = co_await std::move(named);
    result = *first + *second;
}

TEST(Task, GivesValuesThatCanOnlyMove) {
    Simulation simulation;
    std::string result;
    simulation.spawn(take_text(simulation, result));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(result, "longer than a string holds in itself!");
}

Task<> count(int& calls) {
    ++calls;
    co_return;
}

TEST(Task, DoesNothingUntilItIsAwaited) {
    int calls = 0;
    { const Task<> never = count(calls); }
    EXPECT_EQ(calls, 0);
}

Task<> assign(int& calls) {
    Task<> task = count(calls);
    task = count(calls);
    co_await std::move(task);
}

TEST(Task, CanBeAssigned) {
    Simulation simulation;
    int calls = 0;
    simulation.spawn(assign(calls));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(calls, 1);
}

Task<int> deep(Simulation& simulation, int depth) {
    if (depth == 0) {
        co_await simulation.delay(1);
        co_return 0;
    }
    const int below = co_await deep(simulation, depth - 1);
    co_return below + 1;
}

Task<> measure_depth(Simulation& simulation, int& result) {
    result = co_await deep(simulation, 1000);
}

TEST(Task, CallsMayBeDeep) {
    Simulation simulation;
    int result = 0;
    simulation.spawn(measure_depth(simulation, result));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(result, 1000);
}

Task<> many_at_once(int& result) {
    for (int i = 0; i < 1'000'000; ++i)
        result += co_await at_once(1);
}

TEST(Task, ManyThatNeverWaitNeedNoStack) {
    Simulation simulation;
    int result = 0;
    simulation.spawn(many_at_once(result));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(result, 1'000'000);
    EXPECT_EQ(simulation.events(), 1U);
}

Task<int> fail(Simulation& simulation, Time after) {
    if (after > 0) co_await simulation.delay(after);
    throw std::runtime_error("failed at " + std::to_string(simulation.now()));
}

Task<int> pass_on(Simulation& simulation, Time after) {
    const int value = co_await fail(simulation, after);
    co_return value;
}

Task<> expect_failures(Simulation& simulation, std::vector<std::string>& caught) {
    for (const Time after : {0, 5}) {
        try {
            co_await pass_on(simulation, after);
        } catch (const std::runtime_error& error) {
            caught.emplace_back(error.what());
        }
    }
}

TEST(Task, AnExceptionGoesToWhoAwaitsIt) {
    Simulation simulation;
    std::vector<std::string> caught;
    simulation.spawn(expect_failures(simulation, caught));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(caught, (std::vector<std::string>{"failed at 0", "failed at 5"}));
}

Task<> fail_in_process(Simulation& simulation, Time after) {
    co_await pass_on(simulation, after);
}

TEST(Task, AnExceptionThatNobodyCatchesComesOutOfRun) {
    Simulation simulation;
    std::string result;
    simulation.spawn(fail_in_process(simulation, 3));
    simulation.spawn(fail_in_process(simulation, 3));
    simulation.spawn(take_text(simulation, result));
    for (int i = 0; i < 2; ++i) {
        try {
            static_cast<void>(simulation.run());
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "failed at 3");
        }
        EXPECT_EQ(simulation.now(), 3);
    }
    EXPECT_TRUE(simulation.run().ok()) << "each exception comes only once";
    EXPECT_FALSE(result.empty()) << "the others go on";
    EXPECT_EQ(simulation.processes(), 0U);
}

Task<> note(Simulation& simulation, Time after, std::string& notes, char letter) {
    notes += letter;
    if (after > 0) co_await simulation.delay(after);
    notes += letter;
}

Task<> run_all(Simulation& simulation, std::string& notes) {
    co_await all(note(simulation, 30, notes, 'a'), note(simulation, 0, notes, 'b'),
                 note(simulation, 10, notes, 'c'));
    notes += '.';
    std::vector<Task<>> none;
    co_await all(std::move(none));
    co_await all(note(simulation, 0, notes, 'd'));
    notes += '.';
}

TEST(All, StartsInOrderAndEndsWithTheLast) {
    Simulation simulation;
    std::string notes;
    simulation.spawn(run_all(simulation, notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, "abbcca.dd.");
    EXPECT_EQ(simulation.now(), 30);
}

Task<> fail_in_all(Simulation& simulation, std::string& notes) {
    try {
        co_await all(note(simulation, 50, notes, 'a'), fail_in_process(simulation, 20),
                     fail_in_process(simulation, 10));
    } catch (const std::runtime_error& error) {
        notes += error.what();
    }
}

TEST(All, GivesTheFirstExceptionWhenAllHaveEnded) {
    Simulation simulation;
    std::string notes;
    simulation.spawn(fail_in_all(simulation, notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, "aafailed at 20");
    EXPECT_EQ(simulation.now(), 50);
}

/// Tells when it goes.
struct Guest {
    explicit Guest(int& guests) : count(guests) { ++count; }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest() { --count; }
    int& count;
};

Task<> stay(Simulation& simulation, int& guests, int depth) {
    const Guest guest(guests);
    const auto memory = std::make_unique<int>(depth);
    if (depth > 0) {
        co_await all(stay(simulation, guests, depth - 1), stay(simulation, guests, depth - 1));
    } else {
        co_await simulation.delay(1000);
    }
}

TEST(Task, SuspendedTasksGoWithTheirSimulation) {
    int guests = 0;
    {
        Simulation simulation;
        for (int i = 0; i < 10; ++i)
            simulation.spawn(stay(simulation, guests, 3));
        ASSERT_TRUE(simulation.run_until(100).ok());
        EXPECT_EQ(guests, 10 * 15);
        EXPECT_EQ(simulation.processes(), 10U);
        simulation.spawn(stay(simulation, guests, 3));  // never begins
    }
    EXPECT_EQ(guests, 0);
}

TEST(Task, AnEndOnAnotherThreadIsAnEnd) {
    int guests = 0;
    auto simulation = std::make_unique<Simulation>();
    std::thread([&] {
        simulation->spawn(stay(*simulation, guests, 4));
        EXPECT_TRUE(simulation->run_until(100).ok());
    }).join();
    EXPECT_EQ(guests, 31);
    simulation->spawn(stay(*simulation, guests, 0));
    EXPECT_TRUE(simulation->run_until(200).ok());
    std::thread([&] { simulation.reset(); }).join();
    EXPECT_EQ(guests, 0);
}

}  // namespace
