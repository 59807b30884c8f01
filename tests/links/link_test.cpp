// SPDX-License-Identifier: BSD-3-Clause
#include "links/link.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace via::links {
namespace {

constexpr Nanoseconds microsecond = 1'000;
constexpr Nanoseconds millisecond = 1'000'000;
constexpr Nanoseconds start = 1'000 * millisecond;
constexpr std::uint32_t packet_bytes = 1400;

Span span_of(std::uint64_t number) {
    return {number, number, 0, 1};
}

class LinkTest : public testing::Test {
  protected:
    LinkTest() { limits.packet_bytes = packet_bytes; }

    /// Sends `count` packets; each carries the operation of its own number.
    void send(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i)
            link.sent(packet_bytes, span_of(link.next_number()), now);
    }
    void detect() {
        link.detect_losses(now, [&](const Span& span) { lost.push_back(span.first); });
    }
    void acknowledge(std::uint64_t begin, std::uint64_t end) {
        link.acknowledged(begin, end, now, 0);
    }
    /// As much as there is room for, acknowledged a round trip later. Returns packets.
    std::uint32_t fly(Nanoseconds round_trip = 100 * microsecond) {
        const std::uint64_t first = link.next_number();
        while (link.room(now) >= packet_bytes)
            send(1);
        now += round_trip;
        acknowledge(first, link.next_number());
        detect();
        return static_cast<std::uint32_t>(link.next_number() - first);
    }

    /// Packets begin to wait somewhere on the way.
    void feel_a_queue() {
        for (int i = 0; i < 5; ++i)
            fly(millisecond);
    }
    /// The first of `count` packets gets lost.
    void lose_one_of(std::uint32_t count) {
        const std::uint64_t first = link.next_number();
        send(count);
        now += 100 * microsecond;
        acknowledge(first + 1, first + count);
        detect();
    }

    Nanoseconds now = start;
    LinkLimits limits;
    Link link{0, limits, start};
    std::vector<std::uint64_t> lost;
};

/// Also one whose earlier packets were lost gets its time for the next.
TEST_F(LinkTest, OwesAnAnswerOnlyAfterTimeEnough) {
    fly();
    send(1);
    for (int i = 0; i < 2; ++i) {
        now = link.probe_time();
        link.probe_timed_out(now);
    }
    EXPECT_FALSE(link.owes_answer(now)) << "it was asked just now";
    EXPECT_TRUE(link.owes_answer(now + 10 * millisecond));
    link.lose_all([](const Span&) {});
    now += millisecond;
    link.answered(now);
    now += 50 * millisecond;
    EXPECT_FALSE(link.owes_answer(now)) << "its ping came back";
    send(1);
    EXPECT_FALSE(link.owes_answer(now + 100 * microsecond));
    EXPECT_TRUE(link.owes_answer(now + 10 * millisecond));
    link.heard(now + 5 * millisecond);
    EXPECT_FALSE(link.owes_answer(now + 10 * millisecond));
}

TEST_F(LinkTest, ShowsLifeWhenHeardForAWhile) {
    now += 100 * millisecond;
    link.heard(now);  // after a long silence
    EXPECT_FALSE(link.shows_life(now - millisecond, now + millisecond));
    EXPECT_TRUE(link.shows_life(now - millisecond, now + 3 * millisecond));
    EXPECT_FALSE(link.shows_life(now, now + 3 * millisecond)) << "not since then";
    for (int i = 0; i < 5; ++i)
        link.heard(now += millisecond);
    EXPECT_TRUE(link.shows_life(now - 1, now)) << "never silent for long";
}

TEST_F(LinkTest, TheWindowBoundsWhatIsOnTheWay) {
    const std::uint32_t window = link.window();
    std::uint32_t packets = 0;
    while (link.room(now) != 0 && packets < 10'000) {
        send(1);
        ++packets;
    }
    EXPECT_EQ(link.in_flight(), packets * packet_bytes);
    EXPECT_GE(link.in_flight(), window);
    EXPECT_LT(link.in_flight(), window + packet_bytes);
}

TEST_F(LinkTest, TheWindowGrowsWhileItIsFullAndNotBeyondItsLimit) {
    std::uint32_t before = link.window();
    fly();
    EXPECT_GT(link.window(), before + before / 2) << "a window that was full grows fast at first";
    for (int i = 0; i < 40; ++i) {
        before = link.window();
        fly();
        EXPECT_GE(link.window(), before);
    }
    EXPECT_EQ(link.window(), limits.window_bytes);
}

TEST_F(LinkTest, AWindowThatIsNotUsedDoesNotGrow) {
    const std::uint32_t before = link.window();
    for (int i = 0; i < 100; ++i) {
        const std::uint64_t number = link.next_number();
        send(1);
        now += 100 * microsecond;
        acknowledge(number, number + 1);
    }
    EXPECT_EQ(link.window(), before);
    EXPECT_EQ(link.in_flight(), 0U);
}

TEST_F(LinkTest, WhatOthersOvertookIsLostAndTheWindowShrinksOnce) {
    for (int i = 0; i < 5; ++i)
        fly();
    feel_a_queue();
    const std::uint32_t before = link.window();
    const std::uint64_t first = link.next_number();
    send(10);
    now += 100 * microsecond;
    acknowledge(first + 2, first + 10);
    detect();
    EXPECT_EQ(lost, (std::vector{first, first + 1}));
    EXPECT_LT(link.window(), before);
    EXPECT_GE(link.window(), before / 2) << "two losses of one flight count as one";
    EXPECT_EQ(link.counters().lost_packets, 2U);
    EXPECT_EQ(link.in_flight(), 0U);
    const std::uint32_t once = link.window();
    // A loss of a later flight shrinks it again.
    lose_one_of(10);
    EXPECT_LT(link.window(), once);
}

TEST_F(LinkTest, ALossWithoutAQueueIsChance) {
    for (int i = 0; i < 5; ++i)
        fly();
    const std::uint32_t before = link.window();
    for (int i = 0; i < 20; ++i) {
        lose_one_of(10);
        for (int others = 0; others < 2; ++others)
            fly();
    }
    EXPECT_EQ(link.counters().lost_packets, 20U);
    EXPECT_LT(link.loss_share(), 0.02);
    EXPECT_GE(link.window(), before);
}

TEST_F(LinkTest, SoManyLossesThatChanceDoesNotExplainThemAreCongestion) {
    for (int i = 0; i < 5; ++i)
        fly();
    const std::uint32_t before = link.window();
    for (int i = 0; i < 40; ++i)
        lose_one_of(10);
    EXPECT_GT(link.loss_share(), 0.02);
    EXPECT_LT(link.window(), before / 2);
}

TEST_F(LinkTest, TheWindowKeepsRoomForSomePackets) {
    for (int i = 0; i < 100; ++i)
        lose_one_of(10);
    EXPECT_GE(link.window(), 2 * packet_bytes);
    EXPECT_LE(link.window(), 8 * packet_bytes);
}

TEST_F(LinkTest, ALittleReorderingIsNoLossBeforeItsTime) {
    fly();
    const std::uint64_t first = link.next_number();
    send(2);
    now += 100 * microsecond;
    acknowledge(first + 1, first + 2);
    detect();
    EXPECT_TRUE(lost.empty());
    ASSERT_NE(link.loss_time(), never);
    EXPECT_GT(link.loss_time(), now);
    EXPECT_LT(link.loss_time(), now + 5 * millisecond);
    now = link.loss_time() - 1;
    detect();
    EXPECT_TRUE(lost.empty());
    now = link.loss_time();
    detect();
    EXPECT_EQ(lost, std::vector{first});
    EXPECT_EQ(link.loss_time(), never);
}

TEST_F(LinkTest, ALossThatWasNoneIsUndone) {
    for (int i = 0; i < 3; ++i)
        fly();
    feel_a_queue();
    const std::uint32_t before = link.window();
    std::uint64_t first = link.next_number();
    send(20);
    now += 100 * microsecond;
    acknowledge(first + 1, first + 11);
    detect();
    ASSERT_EQ(lost, std::vector{first});
    ASSERT_LT(link.window(), before);
    acknowledge(first, first + 1);  // it comes after all
    EXPECT_EQ(link.counters().spurious_losses, 1U);
    EXPECT_GE(link.window(), before);
    // From now on as much reordering is borne.
    acknowledge(first + 11, first + 20);
    lost.clear();
    first = link.next_number();
    send(11);
    acknowledge(first + 1, first + 10);
    detect();
    EXPECT_TRUE(lost.empty());
}

TEST_F(LinkTest, PacketsWithoutASpanAreNeverLost) {
    link.sent(60, {}, now);
    EXPECT_EQ(link.in_flight(), 0U);
    EXPECT_EQ(link.probe_time(), never);
    send(6);
    acknowledge(1, 7);
    detect();
    EXPECT_TRUE(lost.empty());
}

TEST_F(LinkTest, EverythingIsLostAtOnceWhenTheLinkFalls) {
    send(5);
    acknowledge(1, 2);
    link.lose_all([&](const Span& span) { lost.push_back(span.first); });
    EXPECT_EQ(lost, (std::vector<std::uint64_t>{0, 2, 3, 4}));
    EXPECT_EQ(link.in_flight(), 0U);
    EXPECT_EQ(link.oldest_on_the_way(), nullptr);
}

TEST_F(LinkTest, NumbersLeftOutAreNeverUsedAgainAndNeverLost) {
    send(1);
    link.skip(2, now);
    EXPECT_EQ(link.next_number(), 3U);
    EXPECT_EQ(link.in_flight(), packet_bytes);
    EXPECT_EQ(link.counters().sent_packets, 1U);
    send(6);
    acknowledge(0, 1);
    acknowledge(3, 9);
    EXPECT_TRUE(lost.empty());
    EXPECT_EQ(link.in_flight(), 0U);
}

TEST_F(LinkTest, UnansweredPacketsAreProbedForEachTimeLater) {
    EXPECT_EQ(link.probe_time(), never) << "nothing is on the way";
    fly();  // the round-trip time is known now
    send(3);
    Nanoseconds last = 0;
    for (std::uint32_t i = 0; i < 5; ++i) {
        const Nanoseconds wait = link.probe_time() - now;
        EXPECT_GT(wait, link.smoothed_rtt());
        if (i == 0) {
            EXPECT_LT(wait, 10 * millisecond) << "on a link of 100 us";
        }
        EXPECT_GT(wait, last);
        last = wait;
        now = link.probe_time();
        link.probe_timed_out(now);
        EXPECT_EQ(link.timeouts_in_a_row(), i + 1);
        const std::uint64_t oldest = link.oldest_on_the_way()->span.first;
        if (i < 2) {
            link.lose_oldest([&](const Span& span) { lost.push_back(span.first); });
            EXPECT_EQ(lost.back(), oldest);
        }
    }
    acknowledge(link.next_number() - 1, link.next_number());
    EXPECT_EQ(link.timeouts_in_a_row(), 0U) << "an answer ends the row";
    EXPECT_EQ(link.probe_time(), never);
}

TEST_F(LinkTest, TheRoundTripIsWithoutTheReceiversDelay) {
    send(1);
    now += 500 * microsecond;
    link.acknowledged(0, 1, now, 400 * microsecond);
    EXPECT_EQ(link.smoothed_rtt(), 100 * microsecond);
    // A delay longer than the whole time is nonsense and is not believed.
    send(1);
    now += 100 * microsecond;
    link.acknowledged(1, 2, now, 400 * microsecond);
    EXPECT_EQ(link.smoothed_rtt(), 100 * microsecond);
}

TEST_F(LinkTest, TheRateIsMeasuredWhereThereWasSomethingToSend) {
    for (int i = 0; i < 50; ++i)
        fly(millisecond);
    // A full window each millisecond.
    const double expected = static_cast<double>(link.window()) * 1000;
    EXPECT_GT(link.rate(), expected / 2);
    EXPECT_LT(link.rate(), expected * 2);
    const double before = link.rate();
    for (int i = 0; i < 50; ++i) {
        send(1);
        link.ran_dry();
        now += 10 * millisecond;
        acknowledge(link.next_number() - 1, link.next_number());
    }
    EXPECT_EQ(link.rate(), before);
}

TEST_F(LinkTest, ABurstAfterAPauseIsNotTakenForTheRate) {
    // 128 KB at once, as a token bucket gives them, then 31 MB/s.
    constexpr std::uint64_t at_once = 128 << 10U;
    constexpr double rate = 31e6;
    for (int message = 0; message < 20; ++message) {
        const std::uint64_t first = link.next_number();
        const Nanoseconds began = now;
        send(4 * 46);  // 257 KB
        link.ran_dry();
        for (std::uint64_t i = 0; i < 4; ++i) {
            const std::uint64_t bytes = (i + 1) * 46 * packet_bytes;
            now = began + 100 * microsecond;
            if (bytes > at_once)
                now += static_cast<Nanoseconds>(static_cast<double>(bytes - at_once) / rate * 1e9);
            acknowledge(first + i * 46, first + (i + 1) * 46);
        }
        now += 10 * millisecond;
    }
    EXPECT_LT(link.rate(), 3 * rate);
    EXPECT_GT(link.rate(), rate / 2);
}

TEST_F(LinkTest, ALoneMessageShowsTheRateIfItsLengthTookTheTime) {
    const auto take = [&](std::uint32_t packets, Nanoseconds time) {
        const std::uint64_t first = link.next_number();
        send(packets);
        link.ran_dry();
        now += time;
        acknowledge(first, link.next_number());
    };
    take(1, 20 * microsecond);
    EXPECT_EQ(link.rate(), 0) << "too short to show anything";
    for (int i = 0; i < 200; ++i)
        take(10, 450 * microsecond);
    EXPECT_NEAR(link.rate(), 31e6, 3e6);
    for (int i = 0; i < 2000; ++i)
        take(10, 100 * microsecond);
    EXPECT_NEAR(link.rate(), 140e6, 14e6) << "it has become faster";
    const double fast = link.rate();
    take(10, 200 * microsecond);
    EXPECT_EQ(link.rate(), fast) << "a moment more shows nothing";
    for (int i = 0; i < 200; ++i)
        take(10, 450 * microsecond);
    EXPECT_LT(link.rate(), 40e6) << "and slower";
}

TEST_F(LinkTest, NothingIsSentAgainWhileAnswersKeepComing) {
    for (int i = 0; i < 50; ++i)
        fly(millisecond);
    const std::uint64_t first = link.next_number();
    send(20);
    const Nanoseconds sent_at = now;
    for (std::uint64_t i = 0; i < 19; ++i) {
        now += 500 * microsecond;
        acknowledge(first + i, first + i + 1);
        EXPECT_GT(link.tail_time(), now + 500 * microsecond);
    }
    EXPECT_GT(now, sent_at + 9 * millisecond);
    EXPECT_LT(link.tail_time(), now + link.smoothed_rtt()) << "the last one is waited for";
}

TEST_F(LinkTest, AFullKernelStopsItForAMoment) {
    link.kernel_full(now);
    EXPECT_EQ(link.room(now), 0U);
    EXPECT_GT(link.open_at(), now);
    EXPECT_NE(link.room(link.open_at()), 0U);
    EXPECT_EQ(link.counters().stalls, 1U);
}

TEST_F(LinkTest, AcknowledgementsOfWhatIsGoneOrWasNeverSentDoNothing) {
    send(3);
    acknowledge(0, 1'000'000);
    EXPECT_EQ(link.in_flight(), 0U);
    detect();
    acknowledge(0, 3);
    EXPECT_EQ(link.in_flight(), 0U);
    EXPECT_EQ(link.counters().spurious_losses, 0U);
}

TEST_F(LinkTest, WhatWasReceivedIsKnownAndNothingCountsTwice) {
    EXPECT_TRUE(link.received(0, 100, now));
    EXPECT_TRUE(link.received(2, 100, now));
    EXPECT_FALSE(link.received(2, 100, now));
    EXPECT_FALSE(link.has_received(1));
    EXPECT_TRUE(link.received(1, 100, now));
    EXPECT_EQ(link.received_ranges().ranges().size(), 1U);
    EXPECT_EQ(link.largest_received(), 2U);
    EXPECT_EQ(link.counters().received_packets, 3U);
    EXPECT_EQ(link.counters().duplicate_packets, 1U);
    // With gaps without end the memory is bounded, and what is forgotten does not come twice.
    for (std::uint64_t i = 10; i < 10'000; i += 2)
        ASSERT_TRUE(link.received(i, 100, now));
    EXPECT_LE(link.received_ranges().ranges().size(), 64U);
    EXPECT_FALSE(link.received(10, 100, now));
    EXPECT_TRUE(link.has_received(11)) << "too old to be told from a duplicate";
}

// ---- living -------------------------------------------------------------------------------------

/// Answers pings until the link is up; returns how many that took.
std::uint32_t answers_until_up(Link& link, Nanoseconds& now) {
    std::uint32_t answers = 0;
    while (link.state() != LinkState::Up && answers < 1000) {
        now = std::max(now, link.next_ping());
        link.pinged(now);
        now += 100 * microsecond;
        link.answered(now);
        ++answers;
    }
    return answers;
}

TEST_F(LinkTest, ANewLinkIsUpAfterOneAnswer) {
    EXPECT_EQ(link.state(), LinkState::Probing);
    EXPECT_LE(link.next_ping(), now);
    EXPECT_EQ(answers_until_up(link, now), 1U);
}

TEST_F(LinkTest, EachFallNeedsMoreAnswersAndCalmIsForgiven) {
    answers_until_up(link, now);
    std::uint32_t last = 1;
    for (int fall = 0; fall < 4; ++fall) {
        now += 10 * millisecond;
        link.enter(LinkState::Suspect, now);
        EXPECT_LE(link.next_ping(), now) << "it is asked at once";
        const std::uint32_t answers = answers_until_up(link, now);
        EXPECT_GT(answers, last) << "fall " << fall;
        last = answers;
    }
    for (int fall = 0; fall < 20; ++fall) {
        link.enter(LinkState::Suspect, now);
        EXPECT_LE(answers_until_up(link, now), 64U) << "there is an end to it";
    }
    now += 11'000 * millisecond;
    link.enter(LinkState::Suspect, now);
    EXPECT_LT(answers_until_up(link, now), last);
}

TEST_F(LinkTest, AnswersCountOnlyInARow) {
    answers_until_up(link, now);
    link.enter(LinkState::Suspect, now);
    const std::uint32_t needed = link.answers_needed();
    ASSERT_GT(needed, 2U);
    for (std::uint32_t i = 0; i + 1 < needed; ++i) {
        link.pinged(now);
        link.answered(now);
    }
    link.pinged(now);
    link.pinged(now);  // the one before got no answer
    link.answered(now);
    EXPECT_EQ(link.state(), LinkState::Suspect);
    EXPECT_EQ(answers_until_up(link, now), needed - 1);
}

TEST_F(LinkTest, PingsOfADeadLinkBecomeRare) {
    answers_until_up(link, now);
    link.enter(LinkState::Down, now);
    Nanoseconds last = 0;
    for (int i = 0; i < 60; ++i) {
        link.pinged(now);
        const Nanoseconds wait = link.next_ping() - now;
        EXPECT_GE(wait, last);
        EXPECT_LE(wait, 500 * millisecond);
        last = wait;
        now = link.next_ping();
    }
    EXPECT_EQ(last, 500 * millisecond);
    EXPECT_EQ(link.unanswered_pings(), 60U);
    link.answered(now);
    EXPECT_EQ(link.unanswered_pings(), 0U);
    EXPECT_LE(link.next_ping() - now, 20 * millisecond) << "once it answers it is asked quickly";
}

TEST_F(LinkTest, RefusalsAreBelievedAfterSomeApart) {
    for (int i = 0; i < 100; ++i)
        EXPECT_FALSE(link.refused(now)) << "many in one moment are one";
    int apart = 0;
    while (!link.refused(now) && apart < 100) {
        now += 5 * millisecond;
        ++apart;
    }
    EXPECT_GT(apart, 1);
    EXPECT_LT(apart, 10);
    link.heard(now);
    EXPECT_FALSE(link.believed_refused());
}

TEST(Link, ATimeThatAHostStoodStillIsNoRoundTrip) {
    Link link(0, {}, 0);
    link.enter(LinkState::Up, 0);
    link.sent(1'000, {0, 0, 0, 1'000}, 0);
    link.acknowledged(0, 1, millisecond, 0);
    EXPECT_EQ(link.smoothed_rtt(), millisecond);
    // Its machine slept for a hundred seconds before the answer was read.
    link.sent(1'000, {0, 0, 1'000, 2'000}, 2 * millisecond);
    link.acknowledged(1, 2, 100'000 * millisecond, 0);
    EXPECT_EQ(link.smoothed_rtt(), millisecond);
    link.measured_rtt(100'000 * millisecond);  // and so did a ping's
    EXPECT_EQ(link.smoothed_rtt(), millisecond);
    // What is lost now is asked for soon.
    link.sent(1'000, {0, 0, 2'000, 3'000}, 100'001 * millisecond);
    EXPECT_LT(link.probe_time(), 100'100 * millisecond);
}

}  // namespace
}  // namespace via::links
