// SPDX-License-Identifier: BSD-3-Clause
#include "na/endpoint_registry.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace via::na {
namespace {

struct Thing {
    Thing(EndpointRegistry<Thing>& in, std::uint32_t number) : registry(in), index(number) {}
    ~Thing() { registry.remove(index); }
    Thing(const Thing&) = delete;
    Thing& operator=(const Thing&) = delete;
    EndpointRegistry<Thing>& registry;
    std::uint32_t index;
    std::atomic<int> alive{1};
};

std::unique_ptr<Thing> make(EndpointRegistry<Thing>& registry) {
    return registry.add(
        [&](std::uint32_t index) { return std::make_unique<Thing>(registry, index); });
}

std::vector<std::uint32_t> indices(EndpointRegistry<Thing>& registry, std::size_t first = 0,
                                   std::size_t step = 1) {
    std::vector<std::uint32_t> seen;
    registry.visit(first, step, [&](Thing& thing) { seen.push_back(thing.index); });
    return seen;
}

TEST(EndpointRegistry, IndicesAreUsedAgain) {
    EndpointRegistry<Thing> registry;
    auto first = make(registry);
    auto second = make(registry);
    auto third = make(registry);
    EXPECT_EQ(indices(registry), (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(indices(registry, 1, 2), (std::vector<std::uint32_t>{1}));
    EXPECT_EQ(indices(registry, 7, 2), std::vector<std::uint32_t>{});
    second.reset();
    EXPECT_EQ(indices(registry), (std::vector<std::uint32_t>{0, 2}));
    bool seen = false;
    registry.visit_at(1, [&](Thing&) { seen = true; });
    registry.visit_at(99, [&](Thing&) { seen = true; });
    EXPECT_FALSE(seen);
    second = make(registry);
    EXPECT_EQ(second->index, 1U);
    registry.visit_at(1, [&](Thing& thing) { seen = &thing == second.get(); });
    EXPECT_TRUE(seen);
}

TEST(EndpointRegistry, WhatCouldNotBeMadeLeavesNothing) {
    EndpointRegistry<Thing> registry;
    EXPECT_THROW(static_cast<void>(registry.add([](std::uint32_t) -> std::unique_ptr<Thing> {
                     throw std::runtime_error("no");
                 })),
                 std::runtime_error);
    EXPECT_TRUE(indices(registry).empty());
    EXPECT_EQ(make(registry)->index, 0U);
}

/// Nobody is visited after it has gone.
TEST(EndpointRegistry, VisitorsAndThoseWhoGoDoNotMeet) {
    EndpointRegistry<Thing> registry;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> visits{0};
    std::thread visitor([&] {
        while (!stop)
            registry.visit_all([&](Thing& thing) {
                EXPECT_EQ(thing.alive, 1);
                ++visits;
            });
    });
    for (int i = 0; i < 2000 || visits < 100; ++i) {
        auto one = make(registry);
        auto two = make(registry);
        if (i % 3 == 0) std::this_thread::yield();
    }
    stop = true;
    visitor.join();
    EXPECT_TRUE(indices(registry).empty());
}

}  // namespace
}  // namespace via::na
