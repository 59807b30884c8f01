// SPDX-License-Identifier: BSD-3-Clause
#include "ka/rmmt_table.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace via::ka {
namespace {

using base::Code;

RmmtTable make_table(std::uint32_t seed = 1) {
    auto table = RmmtTable::create(std::mt19937(seed));
    EXPECT_TRUE(table.ok());
    return std::move(table).value();
}

Region region_of(std::uint64_t seed) {
    return {seed * 4096,
            seed + 1,
            static_cast<ProtectionTag>(seed),
            static_cast<std::uint32_t>(seed & 3),
            static_cast<std::uint32_t>(seed % 7),
            seed * 3};
}

bool same(const Region& one, const Region& other) {
    return one.address == other.address && one.length == other.length && one.tag == other.tag &&
           one.rights == other.rights && one.arena == other.arena &&
           one.arena_offset == other.arena_offset;
}

TEST(RmmtTable, FindsWhatIsInItAndNothingElse) {
    RmmtTable table = make_table();
    Region found{};
    EXPECT_FALSE(table.view().find(0, found));
    EXPECT_FALSE(table.view().find(1, found));
    EXPECT_FALSE(table.view().find(0xFFFFFFFF, found));
    auto handle = table.add(region_of(5));
    ASSERT_TRUE(handle.ok());
    ASSERT_TRUE(table.view().find(handle.value(), found));
    EXPECT_TRUE(same(found, region_of(5)));
    // Another generation of the same entry is another handle.
    EXPECT_FALSE(table.view().find(handle.value() + 0x10000, found));
    EXPECT_FALSE(table.remove(handle.value() + 0x10000).ok());
    ASSERT_TRUE(table.remove(handle.value()).ok());
    EXPECT_FALSE(table.view().find(handle.value(), found));
    EXPECT_EQ(table.remove(handle.value()).error().code, Code::InvalidArgument);
    EXPECT_EQ(table.change(handle.value(), region_of(1)).error().code, Code::InvalidArgument);
}

TEST(RmmtTable, HoldsAllItsEntriesAndThenSaysSo) {
    RmmtTable table = make_table(0xFFFF);
    std::set<MemoryHandle> handles;
    for (std::size_t i = 0; i < RmmtTable::capacity; ++i) {
        auto handle = table.add(region_of(i));
        ASSERT_TRUE(handle.ok()) << i;
        ASSERT_NE(handle.value(), 0U);
        ASSERT_NE(handle.value(), 0xFFFFFFFFU);
        ASSERT_TRUE(handles.insert(handle.value()).second);
    }
    auto over = table.add(region_of(1));
    ASSERT_FALSE(over.ok());
    EXPECT_EQ(over.error().code, Code::OutOfResources);
    EXPECT_NE(over.error().sentence.find("65534"), std::string::npos);
    ASSERT_TRUE(table.remove(*handles.begin()).ok());
    EXPECT_TRUE(table.add(region_of(1)).ok());
    EXPECT_EQ(table.size(), RmmtTable::capacity);
}

TEST(RmmtTable, AStaleHandleStaysStaleForLong) {
    RmmtTable table = make_table();
    auto first = table.add(region_of(1));
    ASSERT_TRUE(table.remove(first.value()).ok());
    for (int i = 0; i < 100'000; ++i) {
        auto handle = table.add(region_of(2));
        ASSERT_TRUE(handle.ok());
        ASSERT_NE(handle.value(), first.value());
        ASSERT_TRUE(table.remove(handle.value()).ok());
    }
}

/// What a peer learns from the handles it was given does not tell it the others.
TEST(RmmtTable, HandlesCanNotBeGuessedFromOthers) {
    RmmtTable table = make_table();
    constexpr int count = 4096;
    std::vector<std::uint32_t> generations;
    for (int i = 0; i < count; ++i)
        generations.push_back(handle_generation(table.add(region_of(1)).value()));
    std::map<std::uint32_t, int> values;
    std::map<std::uint32_t, int> steps;
    for (std::size_t i = 0; i < generations.size(); ++i) {
        ++values[generations[i]];
        if (i != 0) ++steps[(generations[i] - generations[i - 1]) & 0xFFFF];
    }
    // Of 4096 out of 65535 nearly all differ, and no step between neighbours is usual.
    EXPECT_GT(values.size(), std::size_t{count} * 9 / 10);
    EXPECT_GT(steps.size(), std::size_t{count} * 9 / 10);
    for (const auto& [step, times] : steps)
        EXPECT_LT(times, 8) << step;
}

TEST(RmmtTable, AnEntryNeverHasTheSameHandleTwiceInARow) {
    // The worst numbers that there are.
    for (const std::uint32_t number : {0U, 1U, 65534U, 65535U, 65536U, ~0U}) {
        auto made = RmmtTable::create([number] { return number; });
        ASSERT_TRUE(made.ok());
        RmmtTable& table = made.value();
        std::map<std::uint32_t, MemoryHandle> last;  // by entry
        for (int i = 0; i < 5000; ++i) {
            auto handle = table.add(region_of(1));
            ASSERT_TRUE(handle.ok());
            ASSERT_NE(handle.value(), 0U);
            ASSERT_NE(handle.value(), ~0U);
            const std::uint32_t entry = handle_index(handle.value());
            ASSERT_NE(last[entry], handle.value()) << number;
            last[entry] = handle.value();
            ASSERT_TRUE(table.remove(handle.value()).ok());
        }
    }
}

TEST(Region, PermitsWhatAPlainCheckPermits) {
    std::mt19937_64 random(3);
    const auto edge = [&](std::uint64_t around) -> std::uint64_t {
        return around + random() % 5 - 2;
    };
    int permitted = 0;
    for (int i = 0; i < 200'000; ++i) {
        Region region{};
        region.address = random() % 4 == 0 ? edge(0) : random() >> (random() % 64);
        region.length = random() >> (random() % 64);
        // A region never goes beyond the end of the address space.
        region.length = std::min(region.length, ~region.address);
        region.tag = static_cast<ProtectionTag>(random() % 3);
        region.rights = static_cast<std::uint32_t>(random() % 4);
        const std::uint64_t first =
            random() % 2 == 0 ? edge(region.address) : edge(region.address + region.length);
        const std::uint64_t bytes =
            random() % 2 == 0 ? random() % 4 : edge(region.length - (first - region.address));
        const auto wanted = static_cast<std::uint32_t>(random() % 4);
        const auto tag = static_cast<ProtectionTag>(random() % 3);
        const bool any = random() % 4 == 0;
        const bool plain = region.contains(first, bytes) && (region.rights & wanted) == wanted &&
                           (any || region.tag == tag);
        permitted += plain ? 1 : 0;
        ASSERT_EQ(region.permits(first, bytes, wanted, tag, any), plain)
            << region.address << " " << region.length << " " << first << " " << bytes;
    }
    EXPECT_GT(permitted, 5000);
}

TEST(RmmtTable, RestoresRegionsAtTheirHandles) {
    RmmtTable table = make_table();
    const MemoryHandle handle = 0xABCD0000 | 4000;
    ASSERT_TRUE(table.restore(handle, region_of(9)).ok());
    Region found{};
    ASSERT_TRUE(table.view().find(handle, found));
    EXPECT_TRUE(same(found, region_of(9)));
    EXPECT_FALSE(table.restore(handle, region_of(9)).ok());
    EXPECT_FALSE(table.restore(0x00010000 | 4000, region_of(9)).ok());  // the entry is taken
    EXPECT_FALSE(table.restore(0x00010000, region_of(9)).ok());         // index 0
    EXPECT_FALSE(table.restore(0x0001FFFF, region_of(9)).ok());         // last index
    // New ones go around it.
    for (int i = 0; i < 5000; ++i) {
        auto other = table.add(region_of(1));
        ASSERT_TRUE(other.ok());
        ASSERT_NE(handle_index(other.value()), 4000U);
    }
    ASSERT_TRUE(table.view().find(handle, found));
    ASSERT_TRUE(table.remove(handle).ok());
}

TEST(RmmtTable, NobodyElseCanWriteIt) {
    RmmtTable table = make_table();
    const int file = table.file()->get();
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
    const char byte = 1;
    EXPECT_LT(pwrite(file, &byte, 1, 0), 0);
    // And the agent still can.
    auto handle = table.add(region_of(1));
    void* other = mmap(nullptr, rmmt_bytes, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(other, MAP_FAILED);
    Region found{};
    EXPECT_TRUE(RmmtView(static_cast<const RmmtEntry*>(other)).find(handle.value(), found));
    munmap(other, rmmt_bytes);
}

/// After any sequence of operations, the table holds what a plain map holds.
TEST(RmmtTable, AgreesWithAMapAfterAnySequence) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        std::mt19937 random(seed);
        RmmtTable table = make_table(static_cast<std::uint32_t>(random()));
        std::map<MemoryHandle, Region> model;
        std::vector<MemoryHandle> stale;
        const auto some = [&] {
            auto chosen = model.begin();
            std::advance(chosen, static_cast<std::ptrdiff_t>(random() % model.size()));
            return chosen->first;
        };
        for (int step = 0; step < 600; ++step) {
            const auto what = static_cast<std::uint32_t>(random() % 10);
            const Region region = region_of(random());
            if (what < 5 || model.empty()) {
                auto handle = table.add(region);
                ASSERT_TRUE(handle.ok());
                ASSERT_TRUE(model.emplace(handle.value(), region).second) << "seed " << seed;
            } else if (what < 7) {
                const MemoryHandle handle = some();
                ASSERT_TRUE(table.remove(handle).ok());
                model.erase(handle);
                stale.push_back(handle);
            } else if (what < 9) {
                const MemoryHandle handle = some();
                ASSERT_TRUE(table.change(handle, region).ok());
                model[handle] = region;
            } else {
                const auto handle = static_cast<MemoryHandle>(random());
                const bool possible = handle_index(handle) != 0 && handle_index(handle) <= 65534;
                if (table.restore(handle, region).ok()) {
                    ASSERT_TRUE(possible);
                    ASSERT_TRUE(model.emplace(handle, region).second);
                }
            }
        }
        ASSERT_EQ(table.size(), model.size());
        Region found{};
        for (const auto& [handle, region] : model) {
            ASSERT_TRUE(table.view().find(handle, found)) << "seed " << seed;
            ASSERT_TRUE(same(found, region)) << "seed " << seed;
        }
        for (const MemoryHandle handle : stale)
            ASSERT_EQ(table.view().find(handle, found), model.contains(handle)) << "seed " << seed;
    }
}

TEST(RmmtTable, ReadersNeverSeeATornRegion) {
    RmmtTable table = make_table();
    // All fields of a region come from one number, so a mixture shows.
    std::atomic<MemoryHandle> current{0};
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> hits{0};
    auto first = table.add(region_of(0));
    current.store(first.value());
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i)
        readers.emplace_back([&] {
            while (!done.load(std::memory_order_relaxed)) {
                Region region{};
                if (!table.view().find(current.load(std::memory_order_relaxed), region)) continue;
                const std::uint64_t seed = region.length - 1;
                ASSERT_TRUE(same(region, region_of(seed))) << seed;
                hits.fetch_add(1, std::memory_order_relaxed);
            }
        });
    std::uint64_t seed = 0;
    std::mt19937 random(1);
    while (hits.load(std::memory_order_relaxed) < 20'000 || seed < 20'000) {
        const MemoryHandle handle = current.load(std::memory_order_relaxed);
        if (random() % 4 == 0) {
            EXPECT_TRUE(table.remove(handle).ok());
            current.store(table.add(region_of(++seed)).value(), std::memory_order_relaxed);
        } else {
            EXPECT_TRUE(table.change(handle, region_of(++seed)).ok());
        }
        if (seed % 64 == 0) std::this_thread::yield();
    }
    done.store(true);
    for (std::thread& reader : readers)
        reader.join();
}

}  // namespace
}  // namespace via::ka
