// SPDX-License-Identifier: BSD-3-Clause
// The same input gives the same run, to the byte: whatever else the process does, and wherever in
// memory things lie.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "na/seeded.hpp"
#include "sim/core/all.hpp"
#include "sim/core/mailbox.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/signal.hpp"
#include "sim/core/simulation.hpp"

using namespace via::sim;
using via::test::Random;

namespace {

/// A little of everything, entangled.
class World {
  public:
    explicit World(std::uint64_t seed) : random_(seed) {
        simulation_.attach(&trace_);
        for (int host = 0; host < 8; ++host) {
            simulation_.spawn(produce(bus_.add_requester("host " + std::to_string(host))));
            simulation_.spawn(consume());
        }
        simulation_.spawn(tick());
    }

    std::string run() {
        EXPECT_TRUE(simulation_.run_until(100 * microsecond).ok());
        std::string text;
        for (const Span& span : trace_.spans()) {
            text += std::to_string(span.begin) + '-' + std::to_string(span.end) + ' ';
            text += span.lane;
            text += ' ';
            text += span.label;
            text += ' ' + std::to_string(span.message) + '\n';
        }
        return text + std::to_string(simulation_.events()) + " events";
    }

  private:
    Task<> produce(Requester bus) {
        for (;;) {
            co_await simulation_.delay(random_.below(300) * nanosecond);
            const std::uint64_t message = next_++;
            const Time fetch = random_.below(100) * nanosecond;
            co_await all(bus.use(fetch, "fetch", message), memory_.use(fetch / 2, "read", message));
            co_await mailbox_.put(message);
        }
    }
    Task<> consume() {
        for (;;) {
            const std::uint64_t message = co_await mailbox_.take();
            const std::uint32_t units = random_.between(1, memory_.capacity());
            const Hold hold = co_await memory_.acquire("write", message, units);
            const Time begin = simulation_.now();
            const Time patience = begin + random_.below(200) * nanosecond;
            const bool ticked = co_await tick_.wait(patience);
            simulation_.record(begin, "clock", ticked ? "tick" : "late", message);
        }
    }
    Task<> tick() {
        for (;;) {
            co_await simulation_.delay(100 * nanosecond);
            tick_.pulse();
        }
    }

    Random random_;
    Trace trace_;
    Simulation simulation_;
    Resource bus_{simulation_, "bus"};
    Resource memory_{simulation_, "memory", 3};
    Signal tick_{simulation_};
    Mailbox<std::uint64_t> mailbox_{simulation_, 4};
    std::uint64_t next_ = 0;
};

std::uint64_t hash(const std::string& text) {
    std::uint64_t value = 0xCBF29CE484222325U;
    for (const char letter : text)
        value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
    return value;
}

TEST(Replay, TheSameSeedGivesTheSameBytes) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const std::string first = World(seed).run();
        const std::vector<std::string> elsewhere(seed * 100, "what moves the heap");
        const std::string second = World(seed).run();
        EXPECT_GT(first.size(), 10'000U);
        EXPECT_EQ(hash(first), hash(second)) << "seed " << seed;
        EXPECT_TRUE(first == second) << "seed " << seed;
        EXPECT_NE(hash(first), hash(World(seed + 100).run()));
    }
}

TEST(Replay, SimulationsOnSeveralThreadsDoNotKnowOfEachOther) {
    const std::string alone = World(42).run();
    std::vector<std::string> together(4);
    std::vector<std::thread> threads;
    for (std::string& text : together)
        threads.emplace_back([&text] { text = World(42).run(); });
    for (std::thread& thread : threads)
        thread.join();
    for (const std::string& text : together)
        EXPECT_TRUE(text == alone);
}

// The order itself is a promise: what others derive from it is compared with stored results.
TEST(Replay, TheOrderIsTheSameOnEveryMachine) {
    EXPECT_EQ(hash(World(1).run()), 11282228011451821658U);
}

}  // namespace
