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

TEST(StoreTogether, StoresBothWords) {
    struct alignas(16) Pair {
        std::atomic<std::uint64_t> first{1};
        std::atomic<std::uint64_t> second{2};
    };
    std::array<Pair, 3> pairs;
    store_together(pairs[1].first, pairs[1].second, 0x0123456789ABCDEF, ~std::uint64_t{0});
    EXPECT_EQ(pairs[1].first.load(), 0x0123456789ABCDEFU);
    EXPECT_EQ(pairs[1].second.load(), ~std::uint64_t{0});
    for (const Pair* neighbour : {&pairs[0], &pairs[2]}) {
        EXPECT_EQ(neighbour->first.load(), 1U);
        EXPECT_EQ(neighbour->second.load(), 2U);
    }
}

TEST(StoreTogether, WhoSeesTheSecondWordSeesTheFirst) {
    // The same line again and again, as in a ring: of each pair that is seen, the first word is
    // never older than the second.
    struct alignas(cache_line) Line {
        struct alignas(16) Pair {
            std::atomic<std::uint64_t> first{0};
            std::atomic<std::uint64_t> second{0};
        };
        std::array<Pair, 4> pairs;
    };
    static Line line;
    constexpr std::uint64_t rounds = 100000;
    const Deadline deadline = Deadline::after_milliseconds(30000);
    std::thread writer([] {
        for (std::uint64_t round = 1; round <= rounds; ++round)
            for (auto& pair : line.pairs)
                store_together(pair.first, pair.second, ~round, round);
    });
    std::uint64_t wrong = 0;
    std::uint64_t backwards = 0;
    std::array<std::uint64_t, 4> seen{};
    while (seen[3] != rounds && !deadline.expired())
        for (std::size_t i = 0; i < line.pairs.size(); ++i) {
            const auto& pair = line.pairs[i];
            const std::uint64_t second =
                load_then_order(pair.second, [&](std::uint64_t value) { return value != seen[i]; });
            if (second == seen[i]) continue;
            const std::uint64_t first = ~pair.first.load(std::memory_order_relaxed);
            wrong += first < second || first > rounds;
            backwards += second < seen[i];
            seen[i] = second;
        }
    writer.join();
    EXPECT_EQ(seen[3], rounds);
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(backwards, 0U);
}

}  // namespace
