// SPDX-License-Identifier: BSD-3-Clause
// The parts of the C++ API that need no NIC.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <via/via.hpp>

namespace {

static_assert(!std::is_copy_constructible_v<via::Nic> && std::is_move_constructible_v<via::Nic>);
static_assert(!std::is_copy_constructible_v<via::Vi> && std::is_move_constructible_v<via::Vi>);
static_assert(!std::is_copy_constructible_v<via::Memory>);
static_assert(!std::is_copy_constructible_v<via::Buffer>);
static_assert(!std::is_copy_constructible_v<via::BufferPool>);
static_assert(!std::is_copy_constructible_v<via::CompletionQueue>);
static_assert(!std::is_copy_constructible_v<via::Request>);
static_assert(!std::is_copy_constructible_v<via::Listener>);
static_assert(!std::is_copy_constructible_v<via::ProtectionTag>);
static_assert(std::is_nothrow_move_constructible_v<via::Vi>);
static_assert(std::is_nothrow_move_assignable_v<via::Vi>);
static_assert(std::is_trivially_copyable_v<via::RemoteSegment> && sizeof(via::RemoteSegment) == 16);

TEST(ApiExpected, HoldsAValueEvenIfItOnlyMoves) {
    via::Expected<std::unique_ptr<int>> result(std::make_unique<int>(7));
    ASSERT_TRUE(result);
    EXPECT_EQ(**result, 7);
    const std::unique_ptr<int> taken = std::move(*result);
    EXPECT_EQ(*taken, 7);
}

TEST(ApiExpected, HoldsAnError) {
    const via::Expected<int> result(via::Error{VIP_TIMEOUT, "nobody came"});
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, VIP_TIMEOUT);
    EXPECT_EQ(result.error().sentence, "nobody came");
    EXPECT_STREQ(result.error().name(), "VIP_TIMEOUT");
}

TEST(ApiExpected, HoldsNothing) {
    EXPECT_TRUE(via::Expected<void>());
    EXPECT_FALSE(via::Expected<void>(via::Error{VIP_REJECT, "no"}));
}

TEST(ApiAddress, KeepsHostAndDiscriminator) {
    const std::array<std::uint8_t, 6> host{1, 2, 3, 4, 5, 6};
    const via::Address address(host, "echo");
    EXPECT_EQ(address.vip()->HostAddressLen, 6);
    EXPECT_EQ(address.vip()->DiscriminatorLen, 4);
    EXPECT_TRUE(std::ranges::equal(address.host(), host));
    EXPECT_EQ(address.discriminator(), "echo");
}

TEST(ApiAddress, ComparesByBytes) {
    const std::array<std::uint8_t, 2> host{1, 2};
    const std::array<std::uint8_t, 3> longer{1, 2, 'a'};
    EXPECT_EQ(via::Address(host, "a"), via::Address(host, "a"));
    EXPECT_NE(via::Address(host, "a"), via::Address(host, "b"));
    EXPECT_NE(via::Address(host, "ab"), via::Address(longer, "b"));
    const via::Address original(host, "a");
    via::Address copy(host, "b");
    copy = original;
    EXPECT_EQ(copy, original);
    EXPECT_NE(copy.vip(), original.vip());
}

TEST(ApiAddress, CutsAnAbsurdDiscriminator) {
    const std::array<std::uint8_t, 2> host{1, 2};
    const via::Address address(host, std::string(100'000, 'x'));
    EXPECT_EQ(address.vip()->DiscriminatorLen, 65535);
    EXPECT_EQ(address.discriminator().size(), 65535u);
}

TEST(ApiDescriptor, RemoteSegmentMovesOn) {
    const via::RemoteSegment place{0x1000, 5, 100};
    EXPECT_EQ(place.after(40).address, 0x1028u);
    EXPECT_EQ(place.after(40).handle, 5u);
    EXPECT_EQ(place.after(40).length, 60u);
    EXPECT_EQ(place.after(200).length, 0u);
}

TEST(ApiDescriptor, StatusInWords) {
    EXPECT_EQ(via::describe_status(VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE), "");
    const std::string flushed = via::describe_status(VIP_STATUS_DESC_FLUSHED_ERROR);
    EXPECT_NE(flushed.find("flushed"), std::string::npos);
    const std::string both =
        via::describe_status(VIP_STATUS_LENGTH_ERROR | VIP_STATUS_PARTIAL_ERROR);
    EXPECT_NE(both.find("; "), std::string::npos);
    // Every error bit has words.
    for (std::uint32_t bit = 1; bit <= VIP_STATUS_ERROR_MASK; bit <<= 1) {
        if ((bit & VIP_STATUS_ERROR_MASK) == 0) continue;
        EXPECT_NE(via::describe_status(bit), "") << std::hex << bit;
    }
}

TEST(ApiTimeouts, BecomeMilliseconds) {
    using namespace std::chrono_literals;
    EXPECT_EQ(via::detail::milliseconds(2s), 2000u);
    EXPECT_EQ(via::detail::milliseconds(0ms), 0u);
    EXPECT_EQ(via::detail::milliseconds(-5ms), 0u);
    EXPECT_EQ(via::detail::milliseconds(via::forever), VIP_INFINITE);
    EXPECT_EQ(via::detail::Deadline(via::forever).left(), via::forever);
    EXPECT_EQ(via::detail::Deadline(0ms).left(), 0ms);
    EXPECT_GT(via::detail::Deadline(1h).left(), 30min);
}

TEST(ApiBuffer, StrideIsWholeCacheLines) {
    EXPECT_EQ(via::BufferPool::stride(1), 64u);
    EXPECT_EQ(via::BufferPool::stride(64), 64u);
    EXPECT_EQ(via::BufferPool::stride(65), 128u);
    EXPECT_FALSE(via::Buffer());
}

}  // namespace
