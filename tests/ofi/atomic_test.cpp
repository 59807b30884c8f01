// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations at a peer's memory.
#include <array>
#include <atomic>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

constexpr std::uint64_t key = 21;

struct AtomicPair : Pair {
    AtomicPair()
        : Pair([] {
              Wish wish;
              wish.transmit_flags |= FI_DELIVERY_COMPLETE;
              return wish;
          }()) {
        region = b.expose(memory.data(), sizeof memory, key);
    }
    /// The service thread may be the one that changes it.
    [[nodiscard]] std::uint64_t value(std::size_t index) {
        return std::atomic_ref(memory[index]).load();
    }
    std::array<std::uint64_t, 16> memory{};
    Open<fid_mr> region;
};

}  // namespace

TEST(Atomic, ASumIsAdded) {
    AtomicPair pair;
    pair.memory = {10, 20, 30};
    const std::array<std::uint64_t, 2> add{1, 2};
    int context = 0;
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_atomic(pair.a.ep.get(), add.data(), 2, nullptr, 0, 8, key, FI_UINT64, FI_SUM,
                             &context);
        },
        "fi_atomic");
    const fi_cq_tagged_entry entry = pair.a.next_good(&pair.b);
    EXPECT_EQ(entry.op_context, &context);
    EXPECT_TRUE(entry.flags & FI_ATOMIC);
    EXPECT_EQ(pair.value(0), 10U);
    EXPECT_EQ(pair.value(1), 21U);
    EXPECT_EQ(pair.value(2), 32U);
}

TEST(Atomic, AFetchBringsWhatWasThere) {
    AtomicPair pair;
    pair.memory = {5, 6};
    const std::uint64_t add = 100;
    std::uint64_t old = 0;
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_fetch_atomic(pair.a.ep.get(), &add, 1, nullptr, &old, nullptr, 0, 0, key,
                                   FI_UINT64, FI_SUM, nullptr);
        },
        "fi_fetch_atomic");
    EXPECT_TRUE(pair.a.next_good(&pair.b).flags & FI_READ);
    EXPECT_EQ(old, 5U);
    EXPECT_EQ(pair.value(0), 105U);
    until_taken(
        pair.a, &pair.b,
        [&] {
            return fi_fetch_atomic(pair.a.ep.get(), nullptr, 1, nullptr, &old, nullptr, 0, 8, key,
                                   FI_UINT64, FI_ATOMIC_READ, nullptr);
        },
        "read");
    (void)pair.a.next_good(&pair.b);
    EXPECT_EQ(old, 6U);
}

TEST(Atomic, ACompareAndSwapSwapsIfEqual) {
    AtomicPair pair;
    pair.memory = {7};
    const auto swap = [&](std::uint64_t expected, std::uint64_t value) {
        std::uint64_t old = 0;
        until_taken(
            pair.a, &pair.b,
            [&] {
                return fi_compare_atomic(pair.a.ep.get(), &value, 1, nullptr, &expected, nullptr,
                                         &old, nullptr, 0, 0, key, FI_UINT64, FI_CSWAP, nullptr);
            },
            "fi_compare_atomic");
        (void)pair.a.next_good(&pair.b);
        return old;
    };
    EXPECT_EQ(swap(8, 1), 7U);
    EXPECT_EQ(pair.value(0), 7U);
    EXPECT_EQ(swap(7, 1), 7U);
    EXPECT_EQ(pair.value(0), 1U);
}

TEST(Atomic, AnInjectIsSilent) {
    AtomicPair pair;
    for (std::uint64_t i = 1; i <= 10; ++i)
        until_taken(
            pair.a, &pair.b,
            [&] { return fi_inject_atomic(pair.a.ep.get(), &i, 1, 0, 0, key, FI_UINT64, FI_SUM); },
            "fi_inject_atomic");
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (pair.value(0) != 55 && !deadline.expired()) {
        pair.a.progress();
        pair.b.progress();
    }
    EXPECT_EQ(pair.value(0), 55U);
    pair.a.expect_quiet(&pair.b);
}

TEST(Atomic, WhatIsSaidToBeValidWorks) {
    AtomicPair pair;
    unsigned valid = 0;
    for (int type = FI_INT8; type <= FI_UINT64; ++type)
        for (int operation = FI_MIN; operation <= FI_ATOMIC_WRITE; ++operation) {
            std::size_t count = 0;
            const auto datatype = static_cast<fi_datatype>(type);
            const auto op = static_cast<fi_op>(operation);
            if (fi_atomicvalid(pair.a.ep.get(), datatype, op, &count) != 0) continue;
            ++valid;
            ASSERT_GE(count, 1U);
            const std::uint64_t one = 1;
            until_taken(
                pair.a, &pair.b,
                [&] {
                    return fi_atomic(pair.a.ep.get(), &one, 1, nullptr, 0, 0, key, datatype, op,
                                     nullptr);
                },
                "fi_atomic");
            (void)pair.a.next_good(&pair.b);
            fi_atomic_attr attributes{};
            EXPECT_EQ(fi_query_atomic(pair.a.domain.get(), datatype, op, &attributes, 0), 0);
            EXPECT_EQ(attributes.count, count);
        }
    EXPECT_GE(valid, 80U);
    std::size_t count = 0;
    EXPECT_EQ(fi_atomicvalid(pair.a.ep.get(), FI_UINT64, FI_CSWAP, &count), -FI_EOPNOTSUPP)
        << "it needs something to compare with";
    EXPECT_EQ(fi_compare_atomicvalid(pair.a.ep.get(), FI_UINT64, FI_CSWAP, &count), 0);
    EXPECT_EQ(fi_fetch_atomicvalid(pair.a.ep.get(), FI_DOUBLE, FI_SUM, &count), 0);
    EXPECT_NE(fi_atomicvalid(pair.a.ep.get(), FI_FLOAT, FI_BXOR, &count), 0);
}

TEST(Atomic, FromBothEndsNothingIsLost) {
    AtomicPair pair;
    const auto local = pair.a.expose(pair.memory.data(), 8, key);
    constexpr std::uint64_t times = 200;
    const std::uint64_t one = 1;
    std::uint64_t done = 0;
    for (std::uint64_t i = 0; i < times; ++i)
        for (Node* node : {&pair.a, &pair.b}) {
            // Both to the memory of b: a by its peer, b to itself.
            until_taken(
                *node, node == &pair.a ? &pair.b : &pair.a,
                [&] {
                    return fi_atomic(node->ep.get(), &one, 1, nullptr, node == &pair.a ? 0 : 1, 0,
                                     key, FI_UINT64, FI_SUM, nullptr);
                },
                "fi_atomic");
            Event event;
            while (node->poll(event))
                ++done;
        }
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    Event event;
    while (done < 2 * times && !deadline.expired())
        for (Node* node : {&pair.a, &pair.b})
            if (node->poll(event)) ++done;
    EXPECT_EQ(done, 2 * times);
    EXPECT_EQ(pair.value(0), 2 * times);
}
