// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/registration_cache.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <memory>

#include "mvich/count_allocations.hpp"
#include "mvich/fake_registrar.hpp"
#include "na/seeded.hpp"

using namespace via::mvich;
using via::test::FakeRegistrar;
using via::test::Random;
using via::test::repeated;

namespace {

constexpr std::size_t plenty = std::size_t{1} << 40;

struct RegistrationCacheTest : testing::Test {
    void open(std::size_t entries, std::size_t bytes = plenty) {
        cache = std::make_unique<RegistrationCache>(registrar,
                                                    RegistrationCache::Limits{entries, bytes});
    }
    /// Acquired and released: the handle.
    std::uint32_t touch(std::size_t offset, std::size_t bytes) {
        RegistrationCache::Entry* entry = cache->acquire(&memory[offset], bytes);
        EXPECT_NE(entry, nullptr);
        if (entry == nullptr) return 0;
        const std::uint32_t handle = RegistrationCache::handle_of(entry);
        EXPECT_TRUE(registrar.covers(handle, &memory[offset], bytes));
        cache->release(entry);
        return handle;
    }
    void expect_counts(std::uint64_t hits, std::uint64_t misses, std::uint64_t refused,
                       std::uint64_t evicted) const {
        EXPECT_EQ(cache->counts().hits, hits);
        EXPECT_EQ(cache->counts().misses, misses);
        EXPECT_EQ(cache->counts().refused, refused);
        EXPECT_EQ(cache->counts().evicted, evicted);
    }
    std::array<std::byte, 1000> memory{};
    FakeRegistrar registrar;
    std::unique_ptr<RegistrationCache> cache;
};

}  // namespace

TEST_F(RegistrationCacheTest, WhatLiesInARegisteredRangeIsAHit) {
    open(10);
    const std::uint32_t handle = touch(100, 200);
    EXPECT_EQ(touch(100, 200), handle);
    EXPECT_EQ(touch(150, 10), handle);
    EXPECT_EQ(touch(299, 1), handle);
    expect_counts(3, 1, 0, 0);
    const std::uint64_t before = via::test::allocations();
    EXPECT_EQ(touch(100, 100), handle);
    EXPECT_EQ(via::test::allocations(), before);
    EXPECT_NE(touch(99, 1), handle);
    EXPECT_NE(touch(300, 1), handle);
    EXPECT_EQ(cache->entries(), 3U);
    EXPECT_EQ(cache->registered_bytes(), 202U);
}

TEST_F(RegistrationCacheTest, WhatIsUsedTimeAndAgainIsFavouredNowAndThen) {
    open(10);
    for (int use = 1; use < 8; ++use)
        touch(100, 200);
    touch(500, 200);
    EXPECT_TRUE(registrar.favoured.empty());
    touch(150, 10);  // the eighth of the first range
    ASSERT_EQ(registrar.favoured.size(), 1U);
    EXPECT_EQ(registrar.favoured.front().address, &memory[100]);
    EXPECT_EQ(registrar.favoured.front().bytes, 200U);
    for (int use = 9; use < 1024; ++use)
        touch(100, 200);
    EXPECT_EQ(registrar.favoured.size(), 7U);  // and with 16, 32, ... 512
}

TEST_F(RegistrationCacheTest, RangesThatOverlapAreRegisteredBesideEachOther) {
    open(10);
    const std::uint32_t one = touch(100, 100);
    const std::uint32_t two = touch(150, 100);
    const std::uint32_t three = touch(50, 100);
    EXPECT_EQ(cache->entries(), 3U);
    EXPECT_EQ(cache->registered_bytes(), 300U);
    EXPECT_EQ(touch(110, 90), one);
    EXPECT_EQ(touch(201, 49), two);
    EXPECT_EQ(touch(50, 60), three);
    EXPECT_EQ(registrar.registered.at(one).bytes, 100U);
    expect_counts(3, 3, 0, 0);
}

TEST_F(RegistrationCacheTest, ALargerRangeTakesThePlaceOfThoseItCovers) {
    open(10);
    RegistrationCache::Entry* used = cache->acquire(&memory[100], 10);
    ASSERT_NE(used, nullptr);
    const std::uint32_t idle = touch(120, 10);
    const std::uint32_t large = touch(100, 100);
    EXPECT_FALSE(registrar.registered.contains(idle));
    // What is in use stays, until it is not.
    const std::uint32_t handle = RegistrationCache::handle_of(used);
    EXPECT_TRUE(registrar.registered.contains(handle));
    EXPECT_EQ(cache->entries(), 2U);
    EXPECT_EQ(touch(100, 10), large);
    cache->release(used);
    EXPECT_FALSE(registrar.registered.contains(handle));
    EXPECT_EQ(cache->entries(), 1U);
    EXPECT_EQ(cache->registered_bytes(), 100U);
}

TEST_F(RegistrationCacheTest, TheOldestIsGivenBackFirst) {
    open(3);
    const std::uint32_t one = touch(0, 10);
    const std::uint32_t two = touch(100, 10);
    const std::uint32_t three = touch(200, 10);
    EXPECT_EQ(touch(0, 10), one);
    const std::uint32_t four = touch(300, 10);
    EXPECT_FALSE(registrar.registered.contains(two));
    EXPECT_TRUE(registrar.registered.contains(one));
    EXPECT_TRUE(registrar.registered.contains(three));
    EXPECT_TRUE(registrar.registered.contains(four));
    expect_counts(1, 4, 0, 1);
}

TEST_F(RegistrationCacheTest, BytesAreLimitedToo) {
    open(100, 250);
    touch(0, 100);
    touch(200, 100);
    EXPECT_EQ(cache->registered_bytes(), 200U);
    touch(400, 51);
    EXPECT_EQ(cache->registered_bytes(), 151U);
    // More than may stay is registered while it is used.
    RegistrationCache::Entry* large = cache->acquire(&memory[500], 400);
    ASSERT_NE(large, nullptr);
    EXPECT_EQ(cache->registered_bytes(), 400U);
    cache->release(large);
    EXPECT_EQ(cache->registered_bytes(), 0U);
}

TEST_F(RegistrationCacheTest, WhatIsInUseIsNeverGivenBack) {
    open(1);
    std::array<RegistrationCache::Entry*, 4> used{};
    for (std::size_t i = 0; i < used.size(); ++i)
        used[i] = cache->acquire(&memory[100 * i], 50);
    RegistrationCache::Entry* again = cache->acquire(&memory[0], 50);
    EXPECT_EQ(again, used[0]);
    EXPECT_EQ(cache->entries(), 4U);
    cache->release(again);
    EXPECT_EQ(cache->entries(), 4U);
    for (RegistrationCache::Entry* each : used)
        cache->release(each);
    EXPECT_EQ(cache->entries(), 1U);
}

TEST_F(RegistrationCacheTest, WithNoEntriesNothingStays) {
    open(0);
    touch(0, 10);
    EXPECT_EQ(cache->entries(), 0U);
    EXPECT_TRUE(registrar.registered.empty());
    touch(0, 10);
    expect_counts(0, 2, 0, 2);
}

TEST_F(RegistrationCacheTest, ARefusalIsCountedAndChangesNothingElse) {
    open(10);
    RegistrationCache::Entry* used = cache->acquire(&memory[0], 10);
    registrar.refuse = true;
    EXPECT_EQ(cache->acquire(&memory[100], 10), nullptr);
    EXPECT_EQ(cache->acquire(&memory[0], 20), nullptr);  // also one that would cover another
    expect_counts(0, 3, 2, 0);
    EXPECT_EQ(cache->entries(), 1U);
    RegistrationCache::Entry* again = cache->acquire(&memory[0], 10);
    EXPECT_EQ(again, used);
    cache->release(again);
    cache->release(used);
    registrar.refuse = false;
    touch(100, 10);
    EXPECT_EQ(cache->entries(), 2U);
    // What goes round the end of all addresses.
    EXPECT_EQ(cache->acquire(&memory[0], ~std::size_t{0}), nullptr);
}

TEST_F(RegistrationCacheTest, WhereTheSystemHasNoMoreTheOldestMakeRoom) {
    struct Narrow final : Registrar {
        via::base::Result<std::uint32_t> register_memory(void* address,
                                                         std::size_t bytes) override {
            if (inner.bytes() + bytes > 100)
                return {via::base::Code::OutOfResources, "not as much memory"};
            return inner.register_memory(address, bytes);
        }
        void deregister(void* address, std::uint32_t handle) noexcept override {
            inner.deregister(address, handle);
        }
        FakeRegistrar inner;
    } narrow;
    cache = std::make_unique<RegistrationCache>(narrow, RegistrationCache::Limits{100, plenty});
    for (std::size_t i = 0; i < 10; ++i) {
        RegistrationCache::Entry* entry = cache->acquire(&memory[50 * i], 10);
        ASSERT_NE(entry, nullptr);
        cache->release(entry);
    }
    EXPECT_EQ(cache->entries(), 10U);
    RegistrationCache::Entry* entry = cache->acquire(&memory[900], 25);
    ASSERT_NE(entry, nullptr);
    expect_counts(0, 11, 0, 3);
    EXPECT_EQ(cache->entries(), 8U);
    EXPECT_EQ(cache->acquire(&memory[700], 101), nullptr);
    EXPECT_EQ(cache->counts().refused, 1U);
    cache->release(entry);
    cache.reset();
    EXPECT_TRUE(narrow.inner.registered.empty());
}

// A registration is for addresses: what is mapped there later is reached through it, too.
TEST_F(RegistrationCacheTest, MemoryMappedAgainAtTheSameAddressIsAHit) {
    open(10);
    constexpr std::size_t bytes = 1 << 16;
    void* first =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(first, MAP_FAILED);
    RegistrationCache::Entry* entry = cache->acquire(first, bytes);
    ASSERT_NE(entry, nullptr);
    const std::uint32_t handle = RegistrationCache::handle_of(entry);
    cache->release(entry);
    ASSERT_EQ(::munmap(first, bytes), 0);
    void* again = ::mmap(first, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(again, first);
    entry = cache->acquire(again, bytes);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(RegistrationCache::handle_of(entry), handle);
    EXPECT_TRUE(registrar.covers(handle, again, bytes));
    cache->release(entry);
    expect_counts(1, 1, 0, 0);
    // Given back while nothing is mapped there: the cache itself never looks at the memory.
    ASSERT_EQ(::munmap(again, bytes), 0);
    cache.reset();
    EXPECT_TRUE(registrar.registered.empty());
}

TEST_F(RegistrationCacheTest, AnyOrderOfCallsKeepsTheLimits) {
    for (std::uint64_t seed = 1; seed <= repeated(300); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        const std::size_t max_entries = random.below(8);
        const std::size_t max_bytes = random.one_in(2) ? plenty : random.below(600);
        open(max_entries, max_bytes);
        struct Use {
            RegistrationCache::Entry* entry;
            std::size_t offset;
            std::size_t bytes;
        };
        std::vector<Use> uses;
        for (int step = 0; step < 300; ++step) {
            registrar.refuse = random.one_in(20);
            const std::uint64_t hits = cache->counts().hits;
            if (random.one_in(2) && uses.size() < 8) {
                const std::size_t offset = 10 * random.below(50);
                const std::size_t bytes = 10 * random.between(1, 49);
                bool covered = false;
                for (const auto& [handle, range] : registrar.registered)
                    covered = covered || registrar.covers(handle, &memory[offset], bytes);
                RegistrationCache::Entry* entry = cache->acquire(&memory[offset], bytes);
                // One in use that was superseded is not found, even if the larger one is gone.
                const bool hit = cache->counts().hits != hits;
                ASSERT_TRUE(hit ? covered : !covered || !uses.empty());
                if (entry == nullptr) {
                    ASSERT_TRUE(registrar.refuse);
                } else {
                    uses.push_back({entry, offset, bytes});
                }
            } else if (!uses.empty()) {
                const std::size_t which = random.below(static_cast<std::uint32_t>(uses.size()));
                cache->release(uses[which].entry);
                uses.erase(uses.begin() + static_cast<long>(which));
            }
            std::size_t used_bytes = 0;
            std::map<std::uint32_t, std::size_t> used;
            for (const Use& use : uses) {
                const std::uint32_t handle = RegistrationCache::handle_of(use.entry);
                ASSERT_TRUE(registrar.covers(handle, &memory[use.offset], use.bytes));
                used[handle] = registrar.registered.at(handle).bytes;
            }
            for (const auto& [handle, bytes] : used)
                used_bytes += bytes;
            ASSERT_EQ(cache->entries(), registrar.registered.size());
            ASSERT_EQ(cache->registered_bytes(), registrar.bytes());
            ASSERT_LE(cache->entries(), std::max(max_entries, used.size()));
            ASSERT_LE(cache->registered_bytes(), std::max(max_bytes, used_bytes));
        }
        for (const Use& use : uses)
            cache->release(use.entry);
        cache.reset();
        ASSERT_TRUE(registrar.registered.empty());
    }
}
