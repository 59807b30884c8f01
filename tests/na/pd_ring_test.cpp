// SPDX-License-Identifier: BSD-3-Clause
#include "na/pd_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "na/seeded.hpp"

using namespace via::na;
using via::test::Random;
using via::test::repeated;

namespace {

PhysicalDescriptor numbered(std::uint64_t number) {
    return {number, static_cast<std::uint32_t>(number * 7), static_cast<std::uint32_t>(~number)};
}

bool same(const PhysicalDescriptor& a, const PhysicalDescriptor& b) {
    return a.address == b.address && a.length == b.length && a.handle == b.handle;
}

TEST(PhysicalDescriptor, HeadSurvivesEncoding) {
    for (const Operation operation :
         {Operation::Send, Operation::RdmaWrite, Operation::RdmaRead, Operation::Receive})
        for (unsigned flags = 0; flags < 4; ++flags)
            for (const std::uint16_t segments :
                 std::initializer_list<std::uint16_t>{0, 1, 252, 65535})
                for (const std::uint32_t word : {0U, 1U, 0x80000000U, 0xFFFFFFFFU}) {
                    const ChainHead head{operation, static_cast<std::uint8_t>(flags), segments,
                                         word, ~word};
                    const ChainHead back = decode_head(encode_head(head));
                    EXPECT_EQ(back.operation, operation);
                    EXPECT_EQ(back.flags, flags);
                    EXPECT_EQ(back.segments, segments);
                    EXPECT_EQ(back.length, word);
                    EXPECT_EQ(back.immediate, ~word);
                }
}

TEST(PhysicalDescriptor, RdmaChainsHaveOnePdMore) {
    for (const std::uint16_t segments : std::initializer_list<std::uint16_t>{0, 1, 252}) {
        EXPECT_EQ((ChainHead{Operation::Send, 0, segments, 0, 0}.chain_pds()), 1U + segments);
        EXPECT_EQ((ChainHead{Operation::Receive, 0, segments, 0, 0}.chain_pds()), 1U + segments);
        EXPECT_EQ((ChainHead{Operation::RdmaWrite, 0, segments, 0, 0}.chain_pds()), 2U + segments);
        EXPECT_EQ((ChainHead{Operation::RdmaRead, 0, segments, 0, 0}.chain_pds()), 2U + segments);
    }
}

TEST(PdRing, IsEmptyAtFirst) {
    const PdRing ring(8, 2);
    EXPECT_TRUE(ring.empty());
    EXPECT_EQ(ring.size(), 0U);
    EXPECT_EQ(ring.spilled(), 0U);
    EXPECT_EQ(ring.refills(), 0U);
}

TEST(PdRing, RefillsAtTheLowWaterMarkAndNotBefore) {
    PdRing ring(8, 2);
    for (std::uint64_t i = 0; i < 20; ++i)
        ring.push(numbered(i));
    EXPECT_EQ(ring.size(), 20U);
    EXPECT_EQ(ring.spilled(), 12U);
    // 8 in the small ring; down to 3 nothing moves, at 2 it is filled up.
    for (std::uint64_t i = 0; i < 5; ++i)
        EXPECT_EQ(ring.pop(1), 0U) << i;
    EXPECT_EQ(ring.refills(), 0U);
    EXPECT_EQ(ring.pop(1), 6U);
    EXPECT_EQ(ring.refills(), 1U);
    EXPECT_EQ(ring.size(), 14U);
    // What is posted while PDs wait in the big ring waits behind them.
    ring.push(numbered(20));
    EXPECT_EQ(ring.spilled(), 13U);
    for (std::uint64_t i = 0; i < 15; ++i)
        EXPECT_TRUE(same(ring.at(static_cast<std::uint32_t>(i)), numbered(6 + i))) << i;
}

TEST(PdRing, GoesBackToTheSmallRingOnceTheBigOneIsEmpty) {
    PdRing ring(8, 2);
    for (std::uint64_t i = 0; i < 10; ++i)
        ring.push(numbered(i));
    EXPECT_EQ(ring.spilled(), 2U);
    EXPECT_EQ(ring.pop(6), 2U);
    ring.push(numbered(10));
    EXPECT_EQ(ring.spilled(), 2U) << "there was room in the small ring and nothing waited";
    for (std::uint64_t i = 6; i <= 10; ++i) {
        EXPECT_TRUE(same(ring.at(0), numbered(i)));
        ring.pop(1);
    }
    EXPECT_TRUE(ring.empty());
}

TEST(PdRing, HoldsAChainLongerThanTheSmallRing) {
    PdRing ring(8, 2);
    ring.push(numbered(100));
    ring.push(numbered(101));
    ring.pop(2);
    constexpr std::uint32_t chain = 254;
    for (std::uint32_t i = 0; i < chain; ++i)
        ring.push(numbered(i));
    ring.push(numbered(1000));
    for (std::uint32_t i = 0; i < chain; ++i)
        ASSERT_TRUE(same(ring.at(i), numbered(i))) << i;
    ring.pop(chain);
    ASSERT_EQ(ring.size(), 1U);
    EXPECT_TRUE(same(ring.at(0), numbered(1000)));
    ring.pop(1);
    EXPECT_TRUE(ring.empty());
}

TEST(PdRing, UsesTheMemoryThatTheDeviceGives) {
    std::array<PhysicalDescriptor, 10> memory{};
    const PhysicalDescriptor guard{0xDEADBEEF, 1, 2};
    memory.front() = memory.back() = guard;
    PdRing ring(std::span<PhysicalDescriptor>(memory).subspan(1, 8), 2);
    for (std::uint64_t i = 0; i < 30; ++i)
        ring.push(numbered(i));
    for (std::size_t i = 0; i < 8; ++i)
        EXPECT_TRUE(same(memory[1 + i], numbered(i)));
    for (std::uint64_t i = 0; i < 30; ++i) {
        EXPECT_TRUE(same(ring.at(0), numbered(i)));
        ring.pop(1);
    }
    EXPECT_TRUE(same(memory.front(), guard));
    EXPECT_TRUE(same(memory.back(), guard));
}

TEST(PdRing, ForgetsEverythingWhenCleared) {
    PdRing ring(8, 2);
    for (std::uint64_t i = 0; i < 50; ++i)
        ring.push(numbered(i));
    ring.pop(3);
    ring.clear();
    EXPECT_TRUE(ring.empty());
    EXPECT_EQ(ring.size(), 0U);
    for (std::uint64_t i = 0; i < 50; ++i)
        ring.push(numbered(1000 + i));
    for (std::uint32_t i = 0; i < 50; ++i)
        ASSERT_TRUE(same(ring.at(i), numbered(1000 + i))) << i;
}

struct Shape {
    std::uint32_t small;
    std::uint32_t low_water;
};

class PdRingModel : public testing::TestWithParam<Shape> {};

/// The ring against a deque: whatever is pushed and popped, the order is kept, nothing is lost, and
/// the big ring is touched only as MyVIA says.
TEST_P(PdRingModel, BehavesAsADeque) {
    const auto [small, low_water] = GetParam();
    for (std::uint64_t seed = 1; seed <= repeated(60); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        PdRing ring(small, low_water);
        std::deque<std::uint64_t> model;
        std::uint32_t in_small = 0;  // of the front of the model
        std::uint64_t next = seed << 32;
        for (int step = 0; step < 400; ++step) {
            if (random.one_in(200)) {
                ring.clear();
                model.clear();
                in_small = 0;
            } else if (random.below(16) < 8 + seed % 3) {
                const std::uint32_t burst = random.between(1, random.one_in(8) ? 4 * small : 6);
                for (std::uint32_t i = 0; i < burst; ++i) {
                    const std::uint64_t spilled = ring.spilled();
                    const bool fits = in_small == model.size() && in_small < small;
                    ring.push(numbered(next));
                    model.push_back(next++);
                    if (fits) ++in_small;
                    ASSERT_EQ(ring.spilled(), spilled + (fits ? 0 : 1));
                }
            } else if (!model.empty()) {
                const std::uint32_t all = static_cast<std::uint32_t>(model.size());
                const std::uint32_t count = random.between(1, random.one_in(4) ? all : 1 + all / 4);
                const std::uint64_t refills = ring.refills();
                const bool spilling = in_small != all;
                const std::uint32_t moved = ring.pop(count);
                model.erase(model.begin(), model.begin() + count);
                in_small -= std::min(in_small, count);
                if (spilling && in_small <= low_water) {
                    const auto left = static_cast<std::uint32_t>(model.size());
                    const std::uint32_t wanted = std::min(left, small) - std::min(in_small, left);
                    ASSERT_EQ(moved, wanted);
                    ASSERT_EQ(ring.refills(), refills + 1);
                    in_small = std::min(left, small);
                } else {
                    ASSERT_EQ(moved, 0U);
                    ASSERT_EQ(ring.refills(), refills);
                }
            }
            ASSERT_EQ(ring.size(), model.size());
            ASSERT_EQ(ring.empty(), model.empty());
            for (std::uint32_t i = 0; i < model.size(); ++i)
                ASSERT_TRUE(same(ring.at(i), numbered(model[i]))) << "PD " << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PdRingModel,
                         testing::Values(Shape{2, 0}, Shape{2, 1}, Shape{8, 0}, Shape{8, 2},
                                         Shape{8, 7}, Shape{64, 16}),
                         [](const auto& shape) {
                             return std::to_string(shape.param.small) + "Low" +
                                    std::to_string(shape.param.low_water);
                         });

}  // namespace
