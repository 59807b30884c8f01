// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/vbuf.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "mvich/count_allocations.hpp"
#include "mvich/fake_registrar.hpp"
#include "na/seeded.hpp"

using namespace via::mvich;
using via::test::FakeRegistrar;
using via::test::Random;
using via::test::repeated;

TEST(VbufPool, AVbufIsAlignedRegisteredAndHasRoomForAPacket) {
    for (const std::uint32_t packet_bytes : {1U, 64U, 65U, 1000U, 9000U}) {
        SCOPED_TRACE(packet_bytes);
        FakeRegistrar registrar;
        VbufPool pool(registrar, {packet_bytes, 5, 3});
        std::set<Vbuf*> all;
        for (int i = 0; i < 15; ++i) {
            Vbuf* vbuf = pool.take();
            ASSERT_NE(vbuf, nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(vbuf) % VIP_DESCRIPTOR_ALIGNMENT, 0U);
            EXPECT_TRUE(registrar.covers(vbuf->handle, &vbuf->descriptor, sizeof vbuf->descriptor));
            EXPECT_TRUE(registrar.covers(vbuf->handle, vbuf->packet, packet_bytes));
            EXPECT_EQ(vbuf->descriptor.CS.Status, 0U);
            EXPECT_TRUE(all.insert(vbuf).second);
            std::memset(vbuf->packet, i + 1, packet_bytes);
        }
        EXPECT_EQ(pool.take(), nullptr);  // max_regions
        EXPECT_EQ(pool.in_use(), 15U);
        EXPECT_EQ(pool.regions(), 3U);
        // Nobody has written into another's packet or head.
        std::set<std::byte> first;
        for (Vbuf* vbuf : all) {
            EXPECT_EQ(vbuf->packet[0], vbuf->packet[packet_bytes - 1]);
            EXPECT_TRUE(first.insert(vbuf->packet[0]).second);
            pool.give(vbuf);
        }
        EXPECT_EQ(pool.in_use(), 0U);
        EXPECT_EQ(pool.regions(), 1U);
        EXPECT_EQ(registrar.registered.size(), 1U);
    }
}

TEST(VbufPool, TheLastGivenIsTakenFirst) {
    FakeRegistrar registrar;
    VbufPool pool(registrar, {100, 4, 1});
    Vbuf* one = pool.take();
    Vbuf* two = pool.take();
    pool.give(one);
    pool.give(two);
    EXPECT_EQ(pool.take(), two);
    EXPECT_EQ(pool.take(), one);
}

TEST(VbufPool, ARefusalChangesNothing) {
    FakeRegistrar registrar;
    VbufPool pool(registrar, {100, 2, 4});
    registrar.refuse = true;
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_EQ(pool.regions(), 0U);
    EXPECT_EQ(pool.in_use(), 0U);
    registrar.refuse = false;
    EXPECT_NE(pool.take(), nullptr);
    EXPECT_NE(pool.take(), nullptr);
    registrar.refuse = true;
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_EQ(pool.in_use(), 2U);
    EXPECT_EQ(pool.regions(), 1U);
    // Memory that can not be had: no process has as much.
    VbufPool large(registrar, {0xFFFFFFFF, 0xFFFFFFFF, 1});
    EXPECT_EQ(large.take(), nullptr);
}

TEST(VbufPool, WhatIsStillInUseIsGivenBackWithThePool) {
    FakeRegistrar registrar;
    {
        VbufPool pool(registrar, {100, 2, 4});
        for (int i = 0; i < 5; ++i)
            EXPECT_NE(pool.take(), nullptr);
        EXPECT_EQ(registrar.registered.size(), 3U);
    }
    EXPECT_TRUE(registrar.registered.empty());
}

TEST(VbufPool, OneIdleRegionIsKeptAndNoMore) {
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        FakeRegistrar registrar;
        const std::uint32_t per_region = random.between(1, 5);
        const std::uint32_t max_regions = random.between(1, 6);
        VbufPool pool(registrar, {random.between(1, 3000), per_region, max_regions});
        std::vector<Vbuf*> taken;
        for (int step = 0; step < 300; ++step) {
            if (random.below(300) < 150U + (step / 50 % 2 == 0 ? 50U : 0U)) {
                Vbuf* vbuf = pool.take();
                ASSERT_EQ(vbuf == nullptr, taken.size() == per_region * max_regions);
                if (vbuf == nullptr) continue;
                ASSERT_EQ(std::count(taken.begin(), taken.end(), vbuf), 0);
                taken.push_back(vbuf);
            } else if (!taken.empty()) {
                const std::size_t which = random.below(static_cast<std::uint32_t>(taken.size()));
                const std::uint64_t before = via::test::allocations();
                pool.give(taken[which]);
                ASSERT_EQ(via::test::allocations(), before);
                taken.erase(taken.begin() + static_cast<long>(which));
            }
            std::set<VbufRegion*> used;
            for (Vbuf* vbuf : taken)
                used.insert(vbuf->region);
            ASSERT_EQ(pool.in_use(), taken.size());
            ASSERT_GE(pool.regions(), used.size());
            ASSERT_LE(pool.regions(), used.size() + 1);
            ASSERT_EQ(registrar.registered.size(), pool.regions());
        }
    }
}
