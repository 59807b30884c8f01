// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/mailbox.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "na/seeded.hpp"

using namespace via::sim;
using via::test::Random;

namespace {

struct Note {
    std::string what;
    Time when;
    bool operator==(const Note&) const = default;
};
using Notes = std::vector<Note>;

std::ostream& operator<<(std::ostream& out, const Note& note) {
    return out << note.what << " at " << note.when;
}

Task<> produce(Simulation& simulation, Mailbox<std::string>& mailbox, std::string name, int count,
               Time period, Notes& notes) {
    for (int i = 0; i < count; ++i) {
        co_await simulation.delay(period);
        std::string value = name + std::to_string(i);
        co_await mailbox.put(std::move(value));
        notes.push_back({"put " + name + std::to_string(i), simulation.now()});
    }
}

Task<> consume(Simulation& simulation, Mailbox<std::string>& mailbox, int count, Time period,
               Notes& notes) {
    for (int i = 0; i < count; ++i) {
        std::string value = co_await mailbox.take();
        notes.push_back({"took " + value, simulation.now()});
        co_await simulation.delay(period);
    }
}

TEST(Mailbox, ATakerWaitsForAValue) {
    Simulation simulation;
    Mailbox<std::string> mailbox(simulation);
    Notes notes;
    simulation.spawn(consume(simulation, mailbox, 2, 0, notes));
    simulation.spawn(produce(simulation, mailbox, "a", 2, 10, notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{{"put a0", 10}, {"took a0", 10}, {"put a1", 20}, {"took a1", 20}}));
    EXPECT_EQ(mailbox.longest(), 0U) << "values were handed over";
}

TEST(Mailbox, AFullOneHoldsItsProducersBack) {
    Simulation simulation;
    Mailbox<std::string> mailbox(simulation, 2);
    Notes notes;
    simulation.spawn(produce(simulation, mailbox, "a", 5, 1, notes));
    simulation.spawn(consume(simulation, mailbox, 5, 10, notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes, (Notes{{"put a0", 1},
                            {"took a0", 1},
                            {"put a1", 2},
                            {"put a2", 3},
                            {"took a1", 11},
                            {"put a3", 11},
                            {"took a2", 21},
                            {"put a4", 21},
                            {"took a3", 31},
                            {"took a4", 41}}));
    EXPECT_EQ(mailbox.longest(), 2U);
    EXPECT_TRUE(mailbox.empty());
}

TEST(Mailbox, AnUnboundedOneHoldsNobodyBack) {
    Simulation simulation;
    Mailbox<std::string> mailbox(simulation);
    Notes notes;
    simulation.spawn(produce(simulation, mailbox, "a", 1000, 0, notes));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(simulation.now(), 0);
    EXPECT_EQ(mailbox.size(), 1000U);
    EXPECT_EQ(simulation.processes(), 0U);
}

TEST(Mailbox, WaitingPutsComeInInOrder) {
    Simulation simulation;
    Mailbox<std::string> mailbox(simulation, 1);
    Notes notes;
    for (const char* name : {"a", "b", "c", "d"})
        simulation.spawn(produce(simulation, mailbox, name, 1, 1, notes));
    ASSERT_TRUE(simulation.run().ok());
    notes.clear();
    // Takes all without waiting; each take lets one more in.
    simulation.spawn(consume(simulation, mailbox, 4, 0, notes));
    ASSERT_TRUE(simulation.run().ok());
    Notes taken;
    for (const Note& note : notes)
        if (note.what.starts_with("took")) taken.push_back(note);
    EXPECT_EQ(taken, (Notes{{"took a0", 1}, {"took b0", 1}, {"took c0", 1}, {"took d0", 1}}));
}

TEST(Mailbox, WaitingTakersAreServedInOrder) {
    Simulation simulation;
    Mailbox<std::string> mailbox(simulation);
    std::vector<Notes> notes(4);
    for (std::size_t i = 0; i < 3; ++i)
        simulation.spawn(consume(simulation, mailbox, 1, 0, notes[i]));
    simulation.spawn(produce(simulation, mailbox, "a", 3, 5, notes[3]));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(notes[0], (Notes{{"took a0", 5}}));
    EXPECT_EQ(notes[1], (Notes{{"took a1", 10}}));
    EXPECT_EQ(notes[2], (Notes{{"took a2", 15}}));
}

TEST(Mailbox, CanBeTriedWithoutWaiting) {
    Simulation simulation;
    Mailbox<std::unique_ptr<int>> mailbox(simulation, 1);
    EXPECT_EQ(mailbox.try_take(), std::nullopt);
    auto first = std::make_unique<int>(1);
    auto second = std::make_unique<int>(2);
    EXPECT_TRUE(mailbox.try_put(first));
    EXPECT_TRUE(mailbox.full());
    EXPECT_FALSE(mailbox.try_put(second));
    ASSERT_NE(second, nullptr) << "what was refused is still there";
    const auto taken = mailbox.try_take();
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(**taken, 1);
    EXPECT_TRUE(mailbox.empty());
}

TEST(Mailbox, MustHaveRoom) {
    Simulation simulation;
    EXPECT_THROW(Mailbox<int>(simulation, 0), std::invalid_argument);
}

Task<> put_temporary(Mailbox<std::unique_ptr<std::string>>& mailbox) {
    co_await mailbox.put(std::make_unique<std::string>("one that is handed over at once"));
    co_await mailbox.put(std::make_unique<std::string>("one that has to wait for its room"));
}

Task<> take_temporary(Simulation& simulation, Mailbox<std::unique_ptr<std::string>>& mailbox,
                      std::string& all) {
    co_await simulation.delay(1);
    all += *co_await mailbox.take();
    all += *co_await mailbox.take();
}

TEST(Mailbox, CarriesTemporaries) {
    Simulation simulation;
    Mailbox<std::unique_ptr<std::string>> mailbox(simulation, 1);
    std::string all;
    simulation.spawn(put_temporary(mailbox));
    simulation.spawn(take_temporary(simulation, mailbox, all));
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(all, "one that is handed over at onceone that has to wait for its room");
}

TEST(Mailbox, MayGoBeforeThoseWhoWait) {
    Simulation simulation;
    Notes notes;
    {
        Mailbox<std::string> full(simulation, 1);
        Mailbox<std::string> empty(simulation);
        simulation.spawn(
            produce(simulation, full, "a value too long for a short string", 3, 1, notes));
        simulation.spawn(consume(simulation, empty, 1, 1, notes));
        ASSERT_TRUE(simulation.run().ok());
    }
    EXPECT_EQ(simulation.processes(), 2U);
}

struct Ledger {
    std::vector<std::uint64_t> put;
    std::vector<std::uint64_t> taken;
    std::size_t largest = 0;
};

Task<> put_at_random(Simulation& simulation, Mailbox<std::uint64_t>& mailbox, std::uint64_t seed,
                     Ledger& ledger) {
    Random random(seed);
    for (int i = 0; i < 100; ++i) {
        co_await simulation.delay(random.below(20));
        const std::uint64_t value = random.next();
        ledger.put.push_back(value);
        co_await mailbox.put(value);
        ledger.largest = std::max(ledger.largest, mailbox.size());
    }
}

/// What is taken is noted by when the take was asked for, which is the order it is served in.
Task<> take_at_random(Simulation& simulation, Mailbox<std::uint64_t>& mailbox, std::uint64_t seed,
                      Ledger& ledger) {
    Random random(seed);
    for (int i = 0; i < 100; ++i) {
        co_await simulation.delay(random.below(20));
        const std::size_t place = ledger.taken.size();
        ledger.taken.push_back(0);
        ledger.taken[place] = co_await mailbox.take();
    }
}

class MailboxProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MailboxProperty, LosesNothingAndKeepsTheOrder) {
    Random random(GetParam());
    Simulation simulation;
    const std::size_t capacity = random.between(1, 5);
    Mailbox<std::uint64_t> mailbox(simulation, capacity);
    Ledger ledger;
    const std::uint32_t pairs = random.between(1, 5);
    for (std::uint32_t i = 0; i < pairs; ++i) {
        simulation.spawn(put_at_random(simulation, mailbox, random.next(), ledger));
        simulation.spawn(take_at_random(simulation, mailbox, random.next(), ledger));
    }
    ASSERT_TRUE(simulation.run().ok());
    EXPECT_EQ(simulation.processes(), 0U);
    EXPECT_EQ(ledger.put, ledger.taken);
    EXPECT_LE(ledger.largest, capacity);
    EXPECT_LE(mailbox.longest(), capacity);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MailboxProperty, testing::Range<std::uint64_t>(1, 31));

}  // namespace
