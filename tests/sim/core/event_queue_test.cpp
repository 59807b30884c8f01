// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/event_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "na/seeded.hpp"

using namespace via::sim;
using via::test::Random;
using via::test::repeated;

namespace {

/// Events are numbered by their context.
Action event(std::uintptr_t number) {
    return {nullptr, reinterpret_cast<void*>(number)};
}

std::uintptr_t pop(EventQueue& queue) {
    return reinterpret_cast<std::uintptr_t>(queue.pop().context);
}

TEST(EventQueue, OrdersByTime) {
    EventQueue queue;
    queue.push_later(30, event(3));
    queue.push_later(10, event(1));
    queue.push_later(20, event(2));
    EXPECT_EQ(queue.next_time(), 10);
    for (std::uintptr_t number = 1; number <= 3; ++number) {
        EXPECT_EQ(pop(queue), number);
        EXPECT_EQ(queue.now(), static_cast<Time>(10 * number));
    }
    EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, OrdersEqualTimesByArrival) {
    EventQueue queue;
    for (std::uintptr_t number = 0; number < 1000; ++number)
        queue.push_later(7, event(number));
    for (std::uintptr_t number = 0; number < 1000; ++number)
        EXPECT_EQ(pop(queue), number);
}

TEST(EventQueue, WhatBecomesReadyNowComesAfterWhatWasPlannedForNow) {
    EventQueue queue;
    queue.push_later(5, event(1));
    queue.push_later(5, event(2));
    queue.push_later(6, event(5));
    EXPECT_EQ(pop(queue), 1U);
    queue.push_now(event(3));
    queue.push_now(event(4));
    for (std::uintptr_t number = 2; number <= 5; ++number)
        EXPECT_EQ(pop(queue), number);
    EXPECT_EQ(queue.now(), 6);
}

TEST(EventQueue, ACancelledEventNeverComes) {
    EventQueue queue;
    queue.push_later(1, event(1));
    const EventQueue::Ticket ticket = queue.push_later(2, event(2));
    queue.push_later(3, event(3));
    EXPECT_TRUE(queue.cancel(ticket));
    EXPECT_FALSE(queue.cancel(ticket));
    EXPECT_EQ(pop(queue), 1U);
    EXPECT_EQ(pop(queue), 3U);
    EXPECT_TRUE(queue.empty());
}

/// The same, without any cleverness.
class PlainQueue {
  public:
    void push(Time time, std::uintptr_t number) { events_.push_back({time, number}); }
    [[nodiscard]] std::uintptr_t pop() {
        const auto first =
            std::min_element(events_.begin(), events_.end(),
                             [](const Event& a, const Event& b) { return a.time < b.time; });
        now_ = first->time;
        const std::uintptr_t number = first->number;
        events_.erase(first);
        return number;
    }
    void cancel(std::uintptr_t number) {
        std::erase_if(events_, [&](const Event& event) { return event.number == number; });
    }
    [[nodiscard]] Time now() const { return now_; }
    [[nodiscard]] bool empty() const { return events_.empty(); }

  private:
    struct Event {
        Time time;
        std::uintptr_t number;
    };
    std::vector<Event> events_;
    Time now_ = 0;
};

class EventQueueProperty : public testing::TestWithParam<std::uint64_t> {};

TEST_P(EventQueueProperty, BehavesLikeASortedList) {
    Random random(GetParam());
    EventQueue queue;
    PlainQueue plain;
    std::vector<std::pair<EventQueue::Ticket, std::uintptr_t>> tickets;
    const std::uint32_t furthest = 1U << random.between(0, 12);  // few or many equal times
    const std::uint32_t steps = repeated(5000);
    for (std::uintptr_t number = 1; number <= steps; ++number) {
        const std::uint32_t choice = random.below(20);
        if (choice < 10) {
            const Time time = queue.now() + 1 + random.below(furthest);
            tickets.emplace_back(queue.push_later(time, event(number)), number);
            plain.push(time, number);
        } else if (choice < 12) {
            queue.push_now(event(number));
            plain.push(queue.now(), number);
        } else if (choice == 12 && !tickets.empty()) {
            const auto [ticket, cancelled] =
                tickets[random.below(static_cast<std::uint32_t>(tickets.size()))];
            queue.cancel(ticket);
            plain.cancel(cancelled);
        } else if (!plain.empty()) {
            ASSERT_FALSE(queue.empty());
            const Time next = queue.next_time();
            ASSERT_EQ(pop(queue), plain.pop());
            ASSERT_EQ(queue.now(), plain.now());
            ASSERT_EQ(queue.now(), next);
        }
    }
    while (!plain.empty())
        ASSERT_EQ(pop(queue), plain.pop());
    EXPECT_TRUE(queue.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, EventQueueProperty, testing::Range<std::uint64_t>(1, 21));

}  // namespace
