// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/window_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "na/seeded.hpp"

using namespace via::mvich;
using via::test::Random;
using via::test::repeated;

namespace {

constexpr std::uint64_t largest = ~std::uint64_t{0};

struct Table : testing::Test {
    [[nodiscard]] bool finds(std::uint64_t address, std::uint64_t bytes, std::uint64_t key = 7,
                             std::uint32_t right = window_read) {
        memory.clear();
        const bool found = table.find({address, bytes, key}, right, memory);
        EXPECT_TRUE(found || memory.empty());
        return found;
    }
    std::array<std::byte, 100> buffer{};
    WindowTable table;
    std::vector<iovec> memory;
};

}  // namespace

using WindowTableTest = Table;

TEST_F(WindowTableTest, OnlyWhatLiesInTheWindowIsFound) {
    ASSERT_TRUE(table.add(7, {{{buffer.data(), 100}}, 1000, window_read}));
    ASSERT_TRUE(finds(1000, 100));
    ASSERT_EQ(memory.size(), 1U);
    EXPECT_EQ(memory[0].iov_base, buffer.data());
    EXPECT_EQ(memory[0].iov_len, 100U);
    ASSERT_TRUE(finds(1099, 1));
    EXPECT_EQ(memory[0].iov_base, &buffer[99]);
    EXPECT_FALSE(finds(999, 1));
    EXPECT_FALSE(finds(1000, 101));
    EXPECT_FALSE(finds(1099, 2));
    EXPECT_FALSE(finds(1100, 1));
    EXPECT_FALSE(finds(1001, largest));
    EXPECT_FALSE(finds(largest, 1));
    EXPECT_FALSE(finds(1050, largest - 1000));
    EXPECT_FALSE(finds(1000, 1, 8));
    // Nothing lies anywhere in the window, and at its end.
    EXPECT_TRUE(finds(1100, 0));
    EXPECT_FALSE(finds(1101, 0));
    table.remove(7);
    EXPECT_FALSE(finds(1000, 1));
}

TEST_F(WindowTableTest, RightsAreNeededOneAndAll) {
    ASSERT_TRUE(table.add(1, {{{buffer.data(), 100}}, 0, window_read}));
    ASSERT_TRUE(table.add(2, {{{buffer.data(), 100}}, 0, window_write}));
    ASSERT_TRUE(table.add(3, {{{buffer.data(), 100}}, 0, window_read | window_write}));
    EXPECT_TRUE(finds(0, 1, 1, window_read));
    EXPECT_FALSE(finds(0, 1, 1, window_write));
    EXPECT_FALSE(finds(0, 1, 2, window_read));
    EXPECT_TRUE(finds(0, 1, 2, window_write));
    EXPECT_FALSE(finds(0, 1, 1, window_read | window_write));
    EXPECT_TRUE(finds(0, 1, 3, window_read | window_write));
}

TEST_F(WindowTableTest, AKeyIsGivenOnce) {
    ASSERT_TRUE(table.add(7, {{{buffer.data(), 10}}, 0, window_read}));
    EXPECT_FALSE(table.add(7, {{{buffer.data(), 100}}, 0, window_read}));
    EXPECT_FALSE(finds(0, 100));
    table.remove(7);
    EXPECT_TRUE(table.add(7, {{{buffer.data(), 100}}, 0, window_read}));
    EXPECT_TRUE(finds(0, 100));
}

TEST_F(WindowTableTest, TheWholeAddressSpaceMayBeAWindow) {
    ASSERT_TRUE(table.add(7, {{{nullptr, largest}}, 0, window_read}));
    const auto address = reinterpret_cast<std::uint64_t>(buffer.data());
    ASSERT_TRUE(finds(address, 100));
    EXPECT_EQ(memory[0].iov_base, buffer.data());
    EXPECT_FALSE(finds(1, largest));
    EXPECT_FALSE(finds(largest, 1));
    EXPECT_FALSE(finds(2, largest - 1));
    // What would go round the end of all addresses is refused.
    EXPECT_FALSE(table.add(8, {{{nullptr, largest}}, 2, window_read}));
    EXPECT_FALSE(table.add(9, {{{nullptr, largest}, {nullptr, 1}}, 0, window_read}));
}

TEST_F(WindowTableTest, ManyPiecesAreFoundAsAModelDoes) {
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        WindowTable::Window window;
        std::vector<void*> byte_at;
        for (std::uint32_t pieces = random.below(6); pieces != 0; --pieces) {
            const std::uint32_t first = random.below(100);
            const std::uint32_t bytes = random.below(101 - first);
            window.pieces.push_back({&buffer[first], bytes});
            for (std::uint32_t i = 0; i < bytes; ++i)
                byte_at.push_back(&buffer[first + i]);
        }
        window.first_address = random.one_in(2) ? 0 : random.next() >> 1;
        window.rights = window_write;
        const std::uint64_t first = window.first_address;
        const std::uint64_t key = table.unused_key();
        ASSERT_TRUE(table.add(key, window));
        for (int i = 0; i < 50; ++i) {
            const std::uint64_t offset =
                random.below(static_cast<std::uint32_t>(byte_at.size()) + 3);
            const std::uint64_t bytes =
                random.below(static_cast<std::uint32_t>(byte_at.size()) + 3);
            ASSERT_EQ(finds(first + offset, bytes, key, window_write),
                      offset + bytes <= byte_at.size());
            std::uint64_t at = offset;
            for (const iovec& piece : memory) {
                ASSERT_NE(piece.iov_len, 0U);
                for (std::size_t k = 0; k < piece.iov_len; ++k)
                    ASSERT_EQ(static_cast<std::byte*>(piece.iov_base) + k, byte_at[at++]);
            }
            ASSERT_EQ(at, offset + bytes <= byte_at.size() ? offset + bytes : offset);
        }
        // What is there already stays.
        memory.assign(1, {&buffer[3], 4});
        EXPECT_FALSE(table.find({first, byte_at.size() + 1, key}, window_write, memory));
        ASSERT_EQ(memory.size(), 1U);
        EXPECT_EQ(memory[0].iov_base, &buffer[3]);
    }
}

TEST_F(WindowTableTest, UnusedKeysDiffer) {
    std::set<std::uint64_t> keys;
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t key = table.unused_key();
        EXPECT_TRUE(keys.insert(key).second);
        EXPECT_TRUE(table.add(key, {}));
    }
}
