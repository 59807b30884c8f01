// SPDX-License-Identifier: BSD-3-Clause
#include "ua/handle_table.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "na/seeded.hpp"

using namespace via::ua;

namespace {

struct Item {
    std::atomic<std::uint64_t> handle{0};
    std::atomic<std::uint64_t> value{0};
};
using Table = HandleTable<Item, 0x56>;

const void* pointer(std::uint64_t handle) {
    return reinterpret_cast<const void*>(handle);
}

std::uint64_t create(Table& table, std::uint64_t value = 0) {
    std::uint64_t handle = 0;
    Item* item = table.take(handle);
    if (item == nullptr) return 0;
    item->value = value;
    item->handle.store(handle, std::memory_order_release);
    return handle;
}

void destroy(Table& table, std::uint64_t handle) {
    table.find(pointer(handle))->handle = 0;
    table.give_back(handle);
}

TEST(HandleTable, FindsWhatItGave) {
    auto table = std::make_unique<Table>();
    std::vector<std::uint64_t> handles;
    for (std::uint64_t i = 0; i < 100; ++i)
        handles.push_back(create(*table, i));
    EXPECT_EQ(std::set(handles.begin(), handles.end()).size(), 100U);
    for (std::uint64_t i = 0; i < 100; ++i) {
        Item* item = table->find(pointer(handles[i]));
        ASSERT_NE(item, nullptr);
        EXPECT_EQ(item->value, i);
    }
}

TEST(HandleTable, DoesNotFindWhatIsNotPublishedYet) {
    auto table = std::make_unique<Table>();
    std::uint64_t handle = 0;
    Item* item = table->take(handle);
    EXPECT_EQ(table->find(pointer(handle)), nullptr);
    item->handle = handle;
    EXPECT_EQ(table->find(pointer(handle)), item);
}

TEST(HandleTable, AStaleHandleDoesNotFindTheNextUser) {
    auto table = std::make_unique<Table>();
    const std::uint64_t first = create(*table);
    Item* place = table->find(pointer(first));
    destroy(*table, first);
    EXPECT_EQ(table->find(pointer(first)), nullptr);
    const std::uint64_t second = create(*table);
    EXPECT_EQ(table->find(pointer(second)), place) << "places are used again";
    EXPECT_NE(first, second);
    EXPECT_EQ(table->find(pointer(first)), nullptr);
    // However often the place changes hands.
    std::set<std::uint64_t> stale{first};
    std::uint64_t current = second;
    for (int i = 0; i < 1000; ++i) {
        stale.insert(current);
        destroy(*table, current);
        current = create(*table);
        EXPECT_FALSE(stale.contains(current));
    }
    for (const std::uint64_t old : stale)
        EXPECT_EQ(table->find(pointer(old)), nullptr);
}

TEST(HandleTable, AnyValueIsSafeToLookUp) {
    auto table = std::make_unique<Table>();
    const std::uint64_t good = create(*table);
    EXPECT_EQ(table->find(nullptr), nullptr);
    EXPECT_EQ(table->find(pointer(~std::uint64_t{0})), nullptr);
    EXPECT_EQ(table->find(table.get()), nullptr);
    for (int bit = 0; bit < 64; ++bit)
        EXPECT_EQ(table->find(pointer(good ^ std::uint64_t{1} << bit)), nullptr) << bit;
    via::test::Random random(1);
    for (int i = 0; i < 100000; ++i) {
        std::uint64_t value = random.next();
        if (i % 2 == 0) value = (value & ~std::uint64_t{0xFF}) | 0x56;
        if (value == good) continue;
        EXPECT_EQ(table->find(pointer(value)), nullptr);
    }
}

TEST(HandleTable, HandlesOfAnotherTableAreForeign) {
    auto table = std::make_unique<Table>();
    auto other = std::make_unique<HandleTable<Item, 0x43>>();
    std::uint64_t theirs = 0;
    Item* item = other->take(theirs);
    item->handle = theirs;
    for (int i = 0; i < 10; ++i)
        create(*table);
    EXPECT_EQ(table->find(pointer(theirs)), nullptr);
    EXPECT_EQ(other->find(pointer(theirs)), item);
}

TEST(HandleTable, IsFullAtItsLimitAndHasRoomAgain) {
    auto table = std::make_unique<Table>();
    std::vector<std::uint64_t> handles;
    for (;;) {
        const std::uint64_t handle = create(*table);
        if (handle == 0) break;
        handles.push_back(handle);
        ASSERT_LE(handles.size(), 32768U);
    }
    EXPECT_EQ(handles.size(), 32768U);
    for (const std::uint64_t handle : handles)
        ASSERT_NE(table->find(pointer(handle)), nullptr);
    destroy(*table, handles[777]);
    const std::uint64_t again = create(*table);
    EXPECT_NE(again, 0U);
    EXPECT_EQ(create(*table), 0U);
}

TEST(HandleTable, VisitsAllThatAreThere) {
    auto table = std::make_unique<Table>();
    std::vector<std::uint64_t> handles;
    for (std::uint64_t i = 0; i < 70; ++i)
        handles.push_back(create(*table, i));
    for (std::size_t i = 0; i < 70; i += 3)
        destroy(*table, handles[i]);
    std::set<std::uint64_t> seen;
    table->for_each([&](Item& item) { seen.insert(item.value); });
    for (std::uint64_t i = 0; i < 70; ++i)
        EXPECT_EQ(seen.contains(i), i % 3 != 0) << i;
}

TEST(HandleTable, ThreadsComeAndGoAndLookForOthers) {
    auto table = std::make_unique<Table>();
    constexpr int rounds = via::test::repeated(20000);
    std::atomic<std::uint64_t> shown{0};
    const auto work = [&](std::uint64_t seed) {
        via::test::Random random(seed);
        std::vector<std::uint64_t> mine;
        for (int i = 0; i < rounds; ++i) {
            if (mine.size() < 40 && random.one_in(2)) {
                mine.push_back(create(*table));
                table->find(pointer(mine.back()))->value = mine.back();
                shown = mine.back();
            } else if (!mine.empty()) {
                const std::size_t which = random.below(static_cast<std::uint32_t>(mine.size()));
                Item* item = table->find(pointer(mine[which]));
                ASSERT_NE(item, nullptr);
                EXPECT_EQ(item->value, mine[which]) << "somebody else has this place, too";
                destroy(*table, mine[which]);
                EXPECT_EQ(table->find(pointer(mine[which])), nullptr);
                mine[which] = mine.back();
                mine.pop_back();
            }
            // Somebody else's, gone or not.
            [[maybe_unused]] Item* other = table->find(pointer(shown));
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
        threads.emplace_back(work, seed);
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace
