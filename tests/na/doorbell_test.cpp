// SPDX-License-Identifier: BSD-3-Clause
#include "na/doorbell.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <thread>
#include <vector>

#include "base/futex.hpp"
#include "na/seeded.hpp"
#include "na/shm/child_process.hpp"

using namespace via::na;
using namespace via::test;
using via::base::Deadline;

namespace {

/// Long enough that only a lost wake-up makes a test wait for it.
Deadline far() {
    return Deadline::after_milliseconds(60000);
}

Doorbell make_doorbell() {
    auto doorbell = Doorbell::create();
    EXPECT_TRUE(doorbell);
    return std::move(doorbell).value();
}

std::uint64_t rings_of(int event) {
    std::uint64_t count = 0;
    return ::read(event, &count, sizeof count) == sizeof count ? count : 0;
}

TEST(Doorbell, IsMemoryThatPeersCanTrustToStay) {
    Doorbell doorbell = make_doorbell();
    const via::base::UniqueFd file(dup(doorbell.memory_file()));
    EXPECT_TRUE(via::base::verify_memory_file(file, sizeof(DoorbellPage)));
    EXPECT_EQ(doorbell.page().sleepers.load(), 0U);
    EXPECT_EQ(doorbell.page().summary.load(), 0U);
    EXPECT_FALSE(doorbell.anyone_sleeps());
}

TEST(Doorbell, MarksWhoWasRungFor) {
    Doorbell doorbell = make_doorbell();
    for (const std::uint32_t index :
         {0U, 1U, 63U, 64U, 4095U, 4096U + 7U, 0xFFFFFFFFU, 5U * 4096U + 130U}) {
        DoorbellPage& page = doorbell.page();
        ring_doorbell(page, doorbell.event(), index, Wakes::Sleeper);
        const std::uint32_t bit = index % doorbell_endpoints;
        EXPECT_EQ(page.summary.exchange(0), std::uint64_t{1} << (bit / 64)) << index;
        EXPECT_EQ(page.marks[bit / 64].exchange(0), std::uint64_t{1} << (bit % 64)) << index;
    }
    for (const auto& word : doorbell.page().marks)
        EXPECT_EQ(word.load(), 0U);
}

TEST(Doorbell, WakesTheServiceThreadOnlyIfAsked) {
    Doorbell doorbell = make_doorbell();
    ring_doorbell(doorbell.page(), doorbell.event(), 3, Wakes::Sleeper);
    EXPECT_EQ(rings_of(doorbell.event()), 0U);
    ring_doorbell(doorbell.page(), doorbell.event(), 3, Wakes::Service);
    ring_doorbell(doorbell.page(), doorbell.event(), 4, Wakes::Service);
    EXPECT_EQ(rings_of(doorbell.event()), 2U);
    ring_service(doorbell.event());
    EXPECT_EQ(rings_of(doorbell.event()), 1U);
}

TEST(Doorbell, RingingAFullEventDoesNotBlock) {
    Doorbell doorbell = make_doorbell();
    const std::uint64_t most = ~std::uint64_t{0} - 1;
    ASSERT_EQ(::write(doorbell.event(), &most, sizeof most), 8);
    ring_service(doorbell.event());
    EXPECT_EQ(rings_of(doorbell.event()), most);
}

TEST(Doorbell, SleepEndsAtTheDeadline) {
    Doorbell doorbell = make_doorbell();
    const Deadline deadline = Deadline::after_milliseconds(5);
    const std::uint32_t ticket = doorbell.enter();
    EXPECT_TRUE(doorbell.anyone_sleeps());
    while (!deadline.expired())
        doorbell.sleep(ticket, deadline);
    doorbell.leave();
    EXPECT_FALSE(doorbell.anyone_sleeps());
}

TEST(Doorbell, ARingAfterEnterIsNotSleptThrough) {
    Doorbell doorbell = make_doorbell();
    const std::uint32_t ticket = doorbell.enter();
    ring_doorbell(doorbell.page(), doorbell.event(), 0, Wakes::Sleeper);
    doorbell.sleep(ticket, Deadline::never());
    doorbell.leave();
    const std::uint32_t second = doorbell.enter();
    doorbell.wake_local();
    doorbell.sleep(second, Deadline::never());
    doorbell.leave();
}

/// The sleeper's side of all waits: enter, look, sleep, until `word` is `value`.
bool sleep_until(Doorbell& doorbell, const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 Deadline deadline) {
    while (!deadline.expired()) {
        const std::uint32_t ticket = doorbell.enter();
        const bool there = word.load(std::memory_order_acquire) == value;
        if (!there) doorbell.sleep(ticket, deadline);
        doorbell.leave();
        if (there) return true;
    }
    return false;
}

struct Turns {
    std::atomic<std::uint32_t> rung{0};
    std::atomic<std::uint32_t> answered{0};
};

/// Rings once per turn and waits for the answer, now at once, now a little later.
bool ring_turns(Doorbell& doorbell, Turns& turns, std::uint32_t rounds, Deadline deadline,
                bool local) {
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        for (std::uint32_t i = 0; i < round % 7; ++i)
            sched_yield();
        turns.rung.store(round, std::memory_order_release);
        if (local)
            doorbell.wake_local();
        else
            ring_doorbell(doorbell.page(), doorbell.event(), round,
                          round % 2 == 0 ? Wakes::Sleeper : Wakes::Service);
        while (turns.answered.load(std::memory_order_acquire) != round) {
            if (deadline.expired()) return false;
            sched_yield();
        }
    }
    return true;
}

void expect_no_lost_wake_up(bool local) {
    Doorbell doorbell = make_doorbell();
    Turns turns;
    constexpr std::uint32_t rounds = repeated(5000);
    const Deadline deadline = far();
    std::thread ringer([&] { EXPECT_TRUE(ring_turns(doorbell, turns, rounds, deadline, local)); });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        if (!sleep_until(doorbell, turns.rung, round, deadline)) break;
        turns.answered.store(round, std::memory_order_release);
    }
    ringer.join();
    EXPECT_EQ(turns.answered.load(), rounds);
    EXPECT_EQ(doorbell.page().sleepers.load(), 0U);
}

TEST(Doorbell, LosesNoWakeUpBetweenThreads) {
    expect_no_lost_wake_up(false);
}

TEST(Doorbell, LosesNoLocalWakeUp) {
    expect_no_lost_wake_up(true);
}

TEST(Doorbell, LosesNoWakeUpBetweenProcesses) {
    Doorbell doorbell = make_doorbell();
    Shared<Turns> turns;
    constexpr std::uint32_t rounds = repeated(3000);
    const Deadline deadline = far();
    ChildProcess ringer([&] {
        // The doorbell's page is shared memory: the child has the peer's view of it.
        return ring_turns(doorbell, *turns.operator->(), rounds, deadline, false) ? 0 : 1;
    });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        ASSERT_TRUE(sleep_until(doorbell, turns->rung, round, deadline)) << round;
        turns->answered.store(round, std::memory_order_release);
    }
    EXPECT_EQ(ringer.wait(), 0);
}

TEST(Doorbell, WakesAllSleepers) {
    Doorbell doorbell = make_doorbell();
    std::atomic<std::uint32_t> word{0};
    std::atomic<int> woken{0};
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 4; ++i)
        sleepers.emplace_back([&] {
            if (sleep_until(doorbell, word, 1, far())) ++woken;
        });
    word = 1;
    ring_doorbell(doorbell.page(), doorbell.event(), 0, Wakes::Sleeper);
    for (std::thread& sleeper : sleepers)
        sleeper.join();
    EXPECT_EQ(woken, 4);
}

TEST(Doorbell, NeedlessWakeUpsDoNoHarm) {
    Doorbell doorbell = make_doorbell();
    Turns turns;
    std::atomic<bool> stop{false};
    const Deadline deadline = far();
    std::thread vandal([&] {
        while (!stop && !deadline.expired())
            via::base::futex_wake_all(doorbell.page().epoch, via::base::FutexScope::Shared);
    });
    constexpr std::uint32_t rounds = 500;
    std::thread ringer([&] { EXPECT_TRUE(ring_turns(doorbell, turns, rounds, deadline, false)); });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        if (!sleep_until(doorbell, turns.rung, round, deadline)) break;
        turns.answered.store(round, std::memory_order_release);
    }
    ringer.join();
    stop = true;
    vandal.join();
    EXPECT_EQ(turns.answered.load(), rounds);
}

/// Two sides say something and then look at the other's word; not both may miss it. One side pays
/// with the barrier, the other with nothing (or a fence, where the kernel has no membarrier).
TEST(AsymmetricBarrier, LetsNotBothSidesMissTheOther) {
    const bool enabled = enable_asymmetric_barrier();
    struct alignas(128) Line {
        std::atomic<std::uint32_t> word{0};
    };
    Line said_fast, said_slow, round_of_fast, round_of_slow;
    std::vector<std::uint32_t> seen_by_fast(repeated(5000)), seen_by_slow(seen_by_fast.size());
    const auto rounds = static_cast<std::uint32_t>(seen_by_fast.size());
    const Deadline deadline = far();
    const auto meet = [&](Line& mine, const Line& theirs, std::uint32_t round) {
        mine.word.store(round, std::memory_order_release);
        for (std::uint32_t turns = 1; theirs.word.load(std::memory_order_acquire) < round;
             ++turns) {
            if (turns % 256 != 0) continue;
            sched_yield();
            if (deadline.expired()) return;
        }
    };
    std::thread fast([&] {
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            meet(round_of_fast, round_of_slow, round);
            said_fast.word.store(round, std::memory_order_relaxed);
            if (enabled)
                std::atomic_signal_fence(std::memory_order_seq_cst);
            else
                std::atomic_thread_fence(std::memory_order_seq_cst);
            seen_by_fast[round - 1] = said_slow.word.load(std::memory_order_relaxed);
        }
    });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        meet(round_of_slow, round_of_fast, round);
        said_slow.word.store(round, std::memory_order_relaxed);
        asymmetric_barrier();
        seen_by_slow[round - 1] = said_fast.word.load(std::memory_order_relaxed);
    }
    fast.join();
    ASSERT_FALSE(deadline.expired());
    for (std::uint32_t round = 1; round <= rounds; ++round)
        ASSERT_TRUE(seen_by_fast[round - 1] >= round || seen_by_slow[round - 1] >= round) << round;
}

}  // namespace
