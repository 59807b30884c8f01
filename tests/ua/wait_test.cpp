// SPDX-License-Identifier: BSD-3-Clause
#include "ua/wait.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "na/seeded.hpp"

using namespace via;
using namespace via::ua;
using base::Deadline;

namespace {

na::Doorbell make_doorbell() {
    auto doorbell = na::Doorbell::create();
    EXPECT_TRUE(doorbell);
    return std::move(doorbell).value();
}

const auto nothing = [] {};
const auto never = [] { return false; };

TEST(AdaptiveSpin, IsShorterTheMoreOftenItIsInVain) {
    AdaptiveSpin spin;
    EXPECT_EQ(spin.span(64'000), 64'000);
    base::Nanoseconds last = 64'000;
    for (int i = 0; i < 10; ++i) {
        spin.was_in_vain();
        const base::Nanoseconds now = spin.span(64'000);
        EXPECT_LE(now, last);
        EXPECT_GE(now, 64'000 / 16);
        last = now;
    }
    EXPECT_EQ(last, 64'000 / 16);
    spin.helped();
    EXPECT_EQ(spin.span(64'000), 64'000);
}

TEST(AdaptiveSpin, NeitherExceedsNorForgetsTheSetting) {
    AdaptiveSpin spin;
    for (int i = 0; i < 10; ++i)
        spin.was_in_vain();
    EXPECT_EQ(spin.span(0), 0);
    EXPECT_EQ(spin.span(1'000), 1'000);
    EXPECT_EQ(spin.span(8'000), 2'000);
}

TEST(WaitUntil, LooksBeforeAnythingElse) {
    na::Doorbell doorbell = make_doorbell();
    int looks = 0;
    int arms = 0;
    EXPECT_TRUE(wait_until(
        doorbell, 1'000'000'000, Deadline::after(0), [&] { return ++looks > 0; }, [&] { ++arms; },
        never));
    EXPECT_EQ(looks, 1);
    EXPECT_EQ(arms, 0);
}

TEST(WaitUntil, ReturnsAtAnExpiredDeadlineAtOnce) {
    na::Doorbell doorbell = make_doorbell();
    int arms = 0;
    EXPECT_FALSE(wait_until(
        doorbell, 1'000'000'000'000, Deadline::after(0), never, [&] { ++arms; }, never));
    EXPECT_EQ(arms, 0);
}

TEST(WaitUntil, SpinsBeforeItSleeps) {
    na::Doorbell doorbell = make_doorbell();
    int looks = 0;
    int arms = 0;
    EXPECT_TRUE(wait_until(
        doorbell, 60'000'000'000, Deadline::never(), [&] { return ++looks == 20; }, [&] { ++arms; },
        never));
    EXPECT_EQ(arms, 0);
    EXPECT_FALSE(doorbell.anyone_sleeps());
}

TEST(WaitUntil, SpinsOnWhileSomethingMoves) {
    na::Doorbell doorbell = make_doorbell();
    int looks = 0;
    int arms = 0;
    EXPECT_TRUE(wait_until(
        doorbell, 1, Deadline::never(), [&] { return ++looks == 10'000; }, [&] { ++arms; }, never,
        [] { return Seen{.moved = true}; }));
    EXPECT_EQ(arms, 0);
    bool armed = false;
    int moves = 3;
    EXPECT_TRUE(wait_until(
        doorbell, 1, Deadline::never(), [&] { return armed; }, [&] { armed = true; }, never,
        [&] { return Seen{.moved = moves != 0 && moves-- != 0}; }));
    EXPECT_EQ(moves, 0) << "it slept though something moved";
}

TEST(WaitUntil, EndsAtTheDeadlineWhateverMoves) {
    na::Doorbell doorbell = make_doorbell();
    const Deadline deadline = Deadline::after_milliseconds(5);
    EXPECT_FALSE(wait_until(doorbell, 1'000'000'000, deadline, never, nothing, never,
                            [] { return Seen{.moved = true}; }));
    EXPECT_TRUE(deadline.expired());
}

TEST(WaitUntil, NapsWhereItMay) {
    na::Doorbell doorbell = make_doorbell();
    constexpr base::Nanoseconds respite = 1'000'000;
    int looks = 0;
    const base::Nanoseconds begin = base::machine_now();
    EXPECT_TRUE(wait_until(
        doorbell, 1'000'000'000, Deadline::never(), [&] { return ++looks == 4; }, nothing, never,
        [&] { return Seen{.respite = looks == 3 ? respite : 0}; }));
    EXPECT_GE(base::machine_now() - begin, respite);
    EXPECT_EQ(looks, 4);
}

TEST(WaitUntil, NapsNoLongerThanTheDeadline) {
    na::Doorbell doorbell = make_doorbell();
    const Deadline deadline = Deadline::after_milliseconds(5);
    EXPECT_FALSE(wait_until(doorbell, 1'000'000'000, deadline, never, nothing, never,
                            [] { return Seen{.respite = 3'600'000'000'000}; }));
    EXPECT_TRUE(deadline.expired());
}

TEST(WaitUntil, EndsAtTheDeadline) {
    na::Doorbell doorbell = make_doorbell();
    for (const base::Nanoseconds spin : {base::Nanoseconds{0}, base::Nanoseconds{1'000'000'000}}) {
        const Deadline deadline = Deadline::after_milliseconds(5);
        EXPECT_FALSE(wait_until(doorbell, spin, deadline, never, nothing, never));
        EXPECT_TRUE(deadline.expired());
        EXPECT_FALSE(doorbell.anyone_sleeps());
    }
}

TEST(WaitUntil, ArmsThenLooksThenSleeps) {
    na::Doorbell doorbell = make_doorbell();
    bool armed = false;
    // What comes between the last look of the spin and the arming is not slept through.
    EXPECT_TRUE(wait_until(
        doorbell, 0, Deadline::never(), [&] { return armed; },
        [&] {
            EXPECT_TRUE(doorbell.anyone_sleeps()) << "a ring from here on must wake";
            armed = true;
        },
        never));
    EXPECT_FALSE(doorbell.anyone_sleeps());
}

TEST(WaitUntil, YieldsWhenItShould) {
    na::Doorbell doorbell = make_doorbell();
    int asked = 0;
    int looks = 0;
    EXPECT_TRUE(wait_until(
        doorbell, 60'000'000'000, Deadline::never(), [&] { return ++looks == 10; }, nothing,
        [&] {
            ++asked;
            return true;
        }));
    EXPECT_EQ(asked, 8) << "after each look of the spin that found nothing";
}

TEST(WaitUntil, IsWokenByARing) {
    na::Doorbell doorbell = make_doorbell();
    const Deadline deadline = Deadline::after_milliseconds(60000);
    std::atomic<std::uint32_t> turn{0};
    std::atomic<std::uint32_t> answered{0};
    constexpr std::uint32_t rounds = via::test::repeated(2000);
    std::thread ringer([&] {
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            turn = round;
            if (round % 2 == 0)
                na::ring_doorbell(doorbell.page(), doorbell.event(), 1, na::Wakes::Sleeper);
            else
                doorbell.wake_local();
            while (answered != round && !deadline.expired())
                sched_yield();
        }
    });
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        if (!wait_until(
                doorbell, round % 3 * 10'000, deadline, [&] { return turn == round; }, nothing,
                never))
            break;
        answered = round;
    }
    ringer.join();
    EXPECT_EQ(answered, rounds);
    EXPECT_FALSE(doorbell.anyone_sleeps());
}

// A peer may have cleared the mark, or never rung: a sleeper looks around by itself.
TEST(WaitUntil, LooksAroundEvenIfNobodyRings) {
    na::Doorbell doorbell = make_doorbell();
    int arms = 0;
    bool there = false;
    std::thread forgetful;
    EXPECT_TRUE(wait_until(
        doorbell, 0, Deadline::after_milliseconds(60000), [&] { return there && arms > 1; },
        [&] {
            ++arms;
            there = true;
        },
        never));
    EXPECT_EQ(arms, 2);
}

}  // namespace
