// SPDX-License-Identifier: BSD-3-Clause
#include "base/cpu.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/clock.hpp"

using namespace via::base;

namespace {

TEST(LoadThenOrder, WhatWasWrittenBeforeTheWordIsSeenAfterIt) {
    // One slot after another: the payload is plain memory, ordered by its word alone.
    struct Slot {
        std::atomic<int> word{0};
        std::array<long, 4> payload{};
    };
    static std::array<Slot, 4096> slots;
    const Deadline deadline = Deadline::after_milliseconds(30000);
    std::thread writer([] {
        for (std::size_t i = 0; i < slots.size(); ++i) {
            slots[i].payload.fill(static_cast<long>(i) + 1);
            slots[i].word.store(1, std::memory_order_release);
        }
    });
    long wrong = 0;
    bool late = false;
    for (std::size_t i = 0; i < slots.size() && !late; ++i) {
        while (load_then_order(slots[i].word, [](int value) { return value != 0; }) == 0) {
            cpu_relax();
            if (deadline.expired()) {
                late = true;
                break;
            }
        }
        for (const long value : slots[i].payload)
            wrong += value != static_cast<long>(i) + 1;
    }
    writer.join();
    EXPECT_FALSE(late);
    EXPECT_EQ(wrong, 0);
}

TEST(LoadThenOrder, GivesTheValueAlsoWhenItIsNotWanted) {
    const std::atomic<int> word{7};
    EXPECT_EQ(load_then_order(word, [](int) { return false; }), 7);
    EXPECT_EQ(load_then_order(word, [](int) { return true; }), 7);
}

}  // namespace
