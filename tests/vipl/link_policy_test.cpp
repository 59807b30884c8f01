// SPDX-License-Identifier: BSD-3-Clause
// The extension VipxSetLinkPolicy: names, handles, and switching while messages move.
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

constexpr std::array policies{"static", "oneway", "dynamic", "adaptive"};

bool has_links() {
    return std::string_view(device()) == "net0" || std::string_view(device()) == "auto";
}

TEST(LinkPolicy, BadArgumentsAreRefused) {
    Nic nic;
    Nic other;
    Vi vi(nic);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxSetLinkPolicy(nullptr, vi, "adaptive"));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxSetLinkPolicy(nic, vi, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxSetLinkPolicy(nic, nic, "adaptive"));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipxSetLinkPolicy(other, vi, "adaptive"));
    if (!has_links()) return;
    for (const char* wrong : {"", "Adaptive", "adaptive ", "round-robin"}) {
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipxSetLinkPolicy(nic, vi, wrong));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipxSetLinkPolicy(nic, nullptr, wrong));
    }
    EXPECT_NE(std::string(VipxErrorText()).find("oneway"), std::string::npos) << VipxErrorText();
}

TEST(LinkPolicy, ADeviceWithoutLinksSaysSo) {
    if (has_links()) GTEST_SKIP() << "this device has links";
    Nic nic;
    Vi vi(nic);
    EXPECT_VIP(VIP_ERROR_NOT_SUPPORTED, VipxSetLinkPolicy(nic, vi, "adaptive"));
    EXPECT_VIP(VIP_ERROR_NOT_SUPPORTED, VipxSetLinkPolicy(nic, nullptr, "adaptive"));
}

TEST(LinkPolicy, CanBeChosenInEveryState) {
    if (!has_links()) GTEST_SKIP() << "no links to choose from";
    Nic nic;
    for (const VIP_VI_STATE state :
         {VIP_STATE_IDLE, VIP_STATE_CONNECT_PENDING, VIP_STATE_CONNECTED, VIP_STATE_ERROR}) {
        ViInState in_state(nic, state);
        for (const char* policy : policies)
            EXPECT_VIP(VIP_SUCCESS, VipxSetLinkPolicy(nic, in_state.vi, policy));
        EXPECT_VIP(VIP_SUCCESS, VipxSetLinkPolicy(nic, nullptr, "adaptive"));
        EXPECT_EQ(in_state.vi.state(), state);
    }
}

/// One thread moves messages, others change the policy of the VI and of the process.
TEST(LinkPolicy, ChangesWhileMessagesMove) {
    if (!has_links()) GTEST_SKIP() << "no links to choose from";
    Pair pair({.arena_bytes = 4U << 20});
    constexpr std::size_t bytes = 100'000;
    std::byte* const source = pair.client.arena.take(bytes);
    std::byte* const target = pair.server.arena.take(bytes);
    VIP_DESCRIPTOR* const send = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* const receive = pair.server.arena.descriptor();
    std::atomic<bool> stop{false};
    std::atomic<unsigned> changes{0};
    const auto change = [&](const auto& set) {
        for (unsigned i = 0; !stop; ++i) {
            EXPECT_VIP(VIP_SUCCESS, set(policies[i % policies.size()]));
            ++changes;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    };
    std::thread one([&] {
        change([&](const char* policy) {
            return VipxSetLinkPolicy(pair.client.nic, pair.client.vi, policy);
        });
    });
    std::thread all([&] {
        change([&](const char* policy) {
            return VipxSetLinkPolicy(pair.server.nic, nullptr, policy);
        });
    });
    const unsigned messages = rounds(200);
    for (unsigned i = 0; i < messages || changes < 100; ++i) {
        fill_pattern(source, bytes, i);
        const std::array sent{pair.client.arena.segment(source, bytes)};
        const std::array received{pair.server.arena.segment(target, bytes)};
        fill(receive, received);
        fill(send, sent);
        if (pair.server.post_recv(receive) != VIP_SUCCESS ||
            pair.client.post_send(send) != VIP_SUCCESS) {
            ADD_FAILURE() << "post: " << VipxErrorText();
            break;
        }
        const Completion arrived = pair.server.vi.await_recv();
        const Completion gone = pair.client.vi.await_send();
        if (arrived.code != VIP_SUCCESS || gone.code != VIP_SUCCESS) {
            ADD_FAILURE() << VipxReturnName(arrived.code) << ", " << VipxReturnName(gone.code);
            break;
        }
        EXPECT_TRUE(has_pattern(target, bytes, i));
    }
    stop = true;
    one.join();
    all.join();
    EXPECT_TRUE(pair.both_connected());
}

}  // namespace
}  // namespace via::test
