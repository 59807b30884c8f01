// SPDX-License-Identifier: BSD-3-Clause
#include "ka/buddy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace via::ka {
namespace {

constexpr std::uint64_t page = Buddy::page_bytes;

TEST(Buddy, RoundsToPowersOfTwoOfAPage) {
    EXPECT_EQ(Buddy::rounded(1), page);
    EXPECT_EQ(Buddy::rounded(page), page);
    EXPECT_EQ(Buddy::rounded(page + 1), 2 * page);
    EXPECT_EQ(Buddy::rounded(std::uint64_t{1} << 63), std::uint64_t{1} << 63);
    EXPECT_EQ(Buddy::rounded((std::uint64_t{1} << 63) + 1), 0U);
    EXPECT_EQ(Buddy::rounded(~std::uint64_t{0}), 0U);
}

TEST(Buddy, GivesTheLowestFittingBlockAndCoalesces) {
    Buddy buddy(16 * page);
    auto one = buddy.allocate(1);
    auto two = buddy.allocate(2 * page);
    auto three = buddy.allocate(1);
    ASSERT_TRUE(one && two && three);
    EXPECT_EQ(one->offset, 0U);
    EXPECT_EQ(two->offset, 2 * page);
    EXPECT_EQ(three->offset, page);  // the buddy of the first
    EXPECT_EQ(buddy.allocated_bytes(), 4 * page);
    EXPECT_FALSE(buddy.allocate(16 * page));
    EXPECT_FALSE(buddy.allocate(17 * page));
    EXPECT_FALSE(buddy.allocate(~std::uint64_t{0}));
    EXPECT_FALSE(buddy.free(3 * page));  // inside a block
    EXPECT_TRUE(buddy.free(0));
    EXPECT_FALSE(buddy.free(0));
    EXPECT_TRUE(buddy.free(2 * page));
    EXPECT_TRUE(buddy.free(page));
    EXPECT_TRUE(buddy.empty());
    // All of it is one block again.
    auto all = buddy.allocate(16 * page);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->offset, 0U);
    EXPECT_EQ(all->bytes, 16 * page);
}

TEST(Buddy, FindsTheBlockThatHoldsARange) {
    Buddy buddy(16 * page);
    ASSERT_TRUE(buddy.allocate(2 * page));
    ASSERT_TRUE(buddy.allocate(2 * page));
    EXPECT_TRUE(buddy.find(0, 2 * page));
    EXPECT_TRUE(buddy.find(2 * page - 1, 1));
    EXPECT_FALSE(buddy.find(page, 2 * page));  // reaches into the next block
    EXPECT_EQ(buddy.find(3 * page, 5)->offset, 2 * page);
    EXPECT_FALSE(buddy.find(4 * page, 1));
    EXPECT_FALSE(buddy.find(~std::uint64_t{0}, 1));
    EXPECT_FALSE(buddy.find(1, ~std::uint64_t{0}));
}

TEST(Buddy, RestoresExactlyTheGivenBlocks) {
    Buddy buddy(16 * page);
    EXPECT_FALSE(buddy.restore({page, 2 * page}));  // not aligned to its size
    EXPECT_FALSE(buddy.restore({0, 3 * page}));     // no power of two
    EXPECT_FALSE(buddy.restore({0, 0}));
    EXPECT_FALSE(buddy.restore({16 * page, page}));  // outside
    EXPECT_FALSE(buddy.restore({0, 32 * page}));
    EXPECT_TRUE(buddy.restore({4 * page, 2 * page}));
    EXPECT_FALSE(buddy.restore({4 * page, 2 * page}));  // taken
    EXPECT_FALSE(buddy.restore({5 * page, page}));      // inside a taken one
    EXPECT_FALSE(buddy.restore({0, 8 * page}));         // around a taken one
    EXPECT_TRUE(buddy.restore({6 * page, page}));
    EXPECT_EQ(buddy.allocated_bytes(), 3 * page);
    EXPECT_EQ(buddy.allocate(page)->offset, 7 * page);  // the smallest piece first
    EXPECT_TRUE(buddy.free(4 * page));
    EXPECT_TRUE(buddy.free(6 * page));
    EXPECT_TRUE(buddy.free(7 * page));
    EXPECT_TRUE(buddy.allocate(16 * page));
}

/// Any sequence: no overlap, alignment, right sums, everything coalesces in the end, and another
/// allocator that restores the blocks in any order is in the same state.
TEST(Buddy, HoldsItsPromisesAfterAnySequence) {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        std::mt19937 random(seed);
        const std::uint64_t size = page << (random() % 12);
        Buddy buddy(size);
        std::map<std::uint64_t, std::uint64_t> model;
        std::uint64_t sum = 0;
        for (int step = 0; step < 800; ++step) {
            if (random() % 5 < 3 || model.empty()) {
                const std::uint64_t wanted = 1 + random() % (size >> (random() % 8));
                const auto block = buddy.allocate(wanted);
                if (!block) continue;
                ASSERT_GE(block->bytes, wanted);
                ASSERT_EQ(block->bytes, Buddy::rounded(wanted));
                ASSERT_EQ(block->offset % block->bytes, 0U);
                ASSERT_LE(block->offset + block->bytes, size);
                const auto next = model.lower_bound(block->offset);
                ASSERT_TRUE(next == model.end() || next->first >= block->offset + block->bytes)
                    << "seed " << seed;
                if (next != model.begin()) {
                    const auto before = std::prev(next);
                    ASSERT_LE(before->first + before->second, block->offset) << "seed " << seed;
                }
                model[block->offset] = block->bytes;
                sum += block->bytes;
            } else {
                auto chosen = model.begin();
                std::advance(chosen, static_cast<std::ptrdiff_t>(random() % model.size()));
                const auto freed = buddy.free(chosen->first);
                ASSERT_TRUE(freed);
                ASSERT_EQ(freed->bytes, chosen->second);
                sum -= chosen->second;
                model.erase(chosen);
            }
            ASSERT_EQ(buddy.allocated_bytes(), sum);
            ASSERT_EQ(buddy.blocks(), model.size());
        }
        std::vector<Buddy::Block> blocks;
        for (const auto& [offset, bytes] : model)
            blocks.push_back({offset, bytes});
        std::shuffle(blocks.begin(), blocks.end(), random);
        Buddy twin(size);
        for (const Buddy::Block& block : blocks)
            ASSERT_TRUE(twin.restore(block));
        for (std::uint64_t wanted = page; wanted <= size; wanted *= 2) {
            const auto here = buddy.allocate(wanted);
            const auto there = twin.allocate(wanted);
            ASSERT_EQ(here.has_value(), there.has_value());
            if (here) {
                ASSERT_EQ(here->offset, there->offset);
                buddy.free(here->offset);
                twin.free(there->offset);
            }
        }
        for (const Buddy::Block& block : blocks)
            ASSERT_TRUE(buddy.free(block.offset));
        ASSERT_TRUE(buddy.empty());
        ASSERT_EQ(buddy.allocate(size)->bytes, size);
    }
}

}  // namespace
}  // namespace via::ka
