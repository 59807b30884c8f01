// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: peers that ask for each other, in any order and number.
#include "ka/client.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ka/client_parts.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

TEST_F(ClientTest, APeerRequestCanBeCancelledWhileItIsAwaited) {
    TestProcess process;
    auto request = process->peer_request(offer(process->create_vi().value(), "a", "b"), soon());
    std::thread waiting([&] {
        EXPECT_EQ(process->peer_wait(request.value()).error().code, Code::InvalidArgument);
    });
    auto status = process->status();
    const Deadline deadline = soon();
    while (status && status.value().processes.at(0).waiting == 0 && !deadline.expired())
        status = process->status();
    process->peer_cancel(request.value());
    waiting.join();
}

TEST_F(ClientTest, PeersMeetInAnyOrder) {
    TestProcess one;
    TestProcess other;
    const std::uint32_t one_vi = one->create_vi().value();
    const std::uint32_t other_vi = other->create_vi().value();
    auto first = one->peer_request(offer(one_vi, "a", "b"), soon());
    ASSERT_TRUE(first.ok());
    EXPECT_FALSE(one->peer_poll(first.value()).has_value());
    auto second = other->peer_request(offer(other_vi, "b", "a"), soon());
    ASSERT_TRUE(second.ok());
    auto at_other = other->peer_wait(second.value());
    ASSERT_TRUE(at_other.ok()) << at_other.error().sentence;
    std::optional<base::Result<Established>> at_one;
    const Deadline deadline = soon();
    while (!(at_one = one->peer_poll(first.value())) && !deadline.expired()) {
    }
    ASSERT_TRUE(at_one.has_value());
    ASSERT_TRUE(at_one->ok());
    EXPECT_EQ(at_one->value().secret, at_other.value().secret);
    // Peer requests go without an answer, so either may have come first; one plays the requester.
    EXPECT_NE(at_one->value().requester, at_other.value().requester);
    // The outcome is told once.
    EXPECT_EQ(one->peer_wait(first.value()).error().code, Code::InvalidArgument);
}

TEST_F(ClientTest, PeerRequestsTimeOutAndCanBeCancelled) {
    TestProcess one;
    TestProcess other;
    const std::uint32_t vi = one->create_vi().value();
    auto lonely = one->peer_request(offer(vi, "a", "b"), Deadline::after_milliseconds(20));
    EXPECT_EQ(one->peer_wait(lonely.value()).error().code, Code::Timeout);
    auto cancelled = one->peer_request(offer(vi, "a", "b"), soon());
    one->peer_cancel(cancelled.value());
    EXPECT_EQ(one->peer_poll(cancelled.value())->error().code, Code::InvalidArgument);
    // Nobody is there any more to be met.
    const std::uint32_t other_vi = other->create_vi().value();
    auto alone = other->peer_request(offer(other_vi, "b", "a"), Deadline::after_milliseconds(20));
    EXPECT_EQ(other->peer_wait(alone.value()).error().code, Code::Timeout);
}

std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        ++count;
    return count;
}

TEST_F(ClientTest, AThousandPeersAskedFirstAndAwaitedLater) {
    constexpr std::uint32_t count = 1000;
    TestProcess one;
    TestProcess other;
    std::vector<std::uint64_t> first;
    std::vector<std::uint64_t> second;
    for (std::uint32_t i = 0; i < count; ++i) {
        auto asked = one->peer_request(
            offer(one->create_vi().value(), "a" + std::to_string(i), "b" + std::to_string(i)),
            soon());
        ASSERT_TRUE(asked.ok()) << asked.error().sentence;
        first.push_back(asked.value());
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        auto asked = other->peer_request(
            offer(other->create_vi().value(), "b" + std::to_string(i), "a" + std::to_string(i)),
            soon());
        ASSERT_TRUE(asked.ok()) << asked.error().sentence;
        second.push_back(asked.value());
    }
    // Outcomes that nobody has claimed cost a descriptor for the channel, not five each.
    const Deadline deadline = soon();
    while (open_descriptors() < 2 * count && !deadline.expired()) {
        (void)one->attached();
        (void)other->attached();
    }
    EXPECT_LT(open_descriptors(), 2 * count + 100);
    for (std::uint32_t i = 0; i < count; ++i) {
        auto at_one = one->peer_wait(first[i]);
        ASSERT_TRUE(at_one.ok()) << at_one.error().sentence;
        auto at_other = other->peer_wait(second[i]);
        ASSERT_TRUE(at_other.ok()) << at_other.error().sentence;
        ASSERT_EQ(at_one.value().secret, at_other.value().secret);
    }
}

}  // namespace
}  // namespace via::ka::test
