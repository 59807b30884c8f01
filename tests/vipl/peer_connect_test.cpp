// SPDX-License-Identifier: BSD-3-Clause
// VipConnectPeerRequest, VipConnectPeerDone, VipConnectPeerWait.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

struct Peers {
    Nic first_nic;
    Nic second_nic;
    Vi first;
    Vi second;
    Address first_address{first_nic, unique_discriminator()};
    Address second_address{second_nic, unique_discriminator()};

    explicit Peers(const ViOptions& first_options = {}, const ViOptions& second_options = {})
        : first(first_nic, first_options), second(second_nic, second_options) {}
    [[nodiscard]] VIP_RETURN request_first(VIP_ULONG timeout = patience_ms) {
        return VipConnectPeerRequest(first, first_address.get(), second_address.get(), timeout);
    }
    [[nodiscard]] VIP_RETURN request_second(VIP_ULONG timeout = patience_ms) {
        return VipConnectPeerRequest(second, second_address.get(), first_address.get(), timeout);
    }
};

VIP_RETURN poll_until_decided(const Vi& vi, VIP_VI_ATTRIBUTES* attributes) {
    VIP_RETURN code = VIP_NOT_DONE;
    static_cast<void>(eventually([&] {
        code = VipConnectPeerDone(vi, attributes);
        return code != VIP_NOT_DONE;
    }));
    return code;
}

TEST(PeerConnect, BothRequestAndBothSucceed) {
    Peers peers({.rdma_write = false}, {.rdma_write = true});
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    EXPECT_EQ(peers.first.state(), VIP_STATE_CONNECT_PENDING);
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_NOT_DONE, VipConnectPeerDone(peers.first, &attributes));
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    EXPECT_VIP(VIP_SUCCESS, poll_until_decided(peers.first, &attributes));
    EXPECT_EQ(attributes.EnableRdmaWrite, VIP_TRUE);
    EXPECT_EQ(attributes.ReliabilityLevel, reliable_delivery);
    EXPECT_EQ(peers.first.state(), VIP_STATE_CONNECTED);
    EXPECT_VIP(VIP_SUCCESS, poll_until_decided(peers.second, &attributes));
    EXPECT_EQ(attributes.EnableRdmaWrite, VIP_FALSE);
    EXPECT_EQ(peers.second.state(), VIP_STATE_CONNECTED);
}

TEST(PeerConnect, WaitGivesTheSameOutcome) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.first, &attributes));
    EXPECT_EQ(attributes.MaxTransferSize, peers.second.attributes().MaxTransferSize);
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.second, &attributes));
    EXPECT_EQ(peers.first.state(), VIP_STATE_CONNECTED);
    EXPECT_EQ(peers.second.state(), VIP_STATE_CONNECTED);
}

TEST(PeerConnect, WaitBlocksUntilThePeerComes) {
    Peers peers;
    ASSERT_VIP(VIP_SUCCESS, peers.request_first(VIP_INFINITE));
    VIP_RETURN waited = VIP_NOT_DONE;
    std::atomic<bool> started{false};
    std::thread waiter([&] {
        VIP_VI_ATTRIBUTES attributes{};
        started = true;
        waited = VipConnectPeerWait(peers.first, &attributes);
    });
    ASSERT_TRUE(eventually([&] { return started.load(); }));
    EXPECT_EQ(peers.first.state(), VIP_STATE_CONNECT_PENDING);
    ASSERT_VIP(VIP_SUCCESS, peers.request_second(infinite_32));
    waiter.join();
    EXPECT_VIP(VIP_SUCCESS, waited);
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.second, &attributes));
}

TEST(PeerConnect, SuccessIsToldOnce) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.first, &attributes));
    EXPECT_VIP(VIP_INVALID_STATE, VipConnectPeerDone(peers.first, &attributes));
    EXPECT_VIP(VIP_INVALID_STATE, VipConnectPeerWait(peers.first, &attributes));
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.second, &attributes));
}

TEST(PeerConnect, TheRequestTimesOut) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_first(20));
    EXPECT_VIP(VIP_TIMEOUT, poll_until_decided(peers.first, &attributes));
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_INVALID_STATE, VipConnectPeerDone(peers.first, &attributes));
    ASSERT_VIP(VIP_SUCCESS, peers.request_first(20));
    EXPECT_VIP(VIP_TIMEOUT, VipConnectPeerWait(peers.first, &attributes));
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
}

TEST(PeerConnect, AfterATimeoutReceivesArePostedAndARetryWorks) {
    Pair pair({.connected = false});
    std::byte* target = pair.client.arena.take(64);
    VIP_DESCRIPTOR* receive = pair.client.arena.message(target, 64);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
    Address first(pair.client.nic, unique_discriminator());
    Address second(pair.server.nic, unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerRequest(pair.client.vi, first.get(), second.get(), 10));
    ASSERT_VIP(VIP_TIMEOUT, VipConnectPeerWait(pair.client.vi, &attributes));
    EXPECT_FALSE(pair.client.vi.recv_queue_empty());
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(pair.client.vi, first.get(), second.get(), patience_ms));
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(pair.server.vi, second.get(), first.get(), patience_ms));
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(pair.client.vi, &attributes));
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(pair.server.vi, &attributes));
    std::byte* source = pair.server.arena.take(64);
    fill_pattern(source, 64, 2);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_send(pair.server.arena.message(source, 64)));
    EXPECT_EQ(pair.client.vi.await_recv().descriptor, receive);
    EXPECT_TRUE(has_pattern(target, 64, 2));
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_send().code);
    expect_traffic(pair);
}

TEST(PeerConnect, AddressesMatchCrosswiseOnly) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    Address third(peers.second_nic, unique_discriminator());
    ASSERT_VIP(VIP_SUCCESS, peers.request_first(100));
    // Right remote, wrong local; then right local, wrong remote: neither is the partner.
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(peers.second, third.get(), peers.first_address.get(), 100));
    EXPECT_VIP(VIP_TIMEOUT, VipConnectPeerWait(peers.second, &attributes));
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(peers.second, peers.second_address.get(), third.get(), 10));
    EXPECT_VIP(VIP_TIMEOUT, VipConnectPeerWait(peers.second, &attributes));
    EXPECT_VIP(VIP_TIMEOUT, VipConnectPeerWait(peers.first, &attributes));
}

TEST(PeerConnect, AClientRequestDoesNotMatchAPeerRequest) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_first(VIP_INFINITE));
    EXPECT_VIP(VIP_NO_MATCH,
               VipConnectRequest(peers.second, peers.second_address.get(),
                                 peers.first_address.get(), patience_ms, &attributes));
    EXPECT_VIP(VIP_NOT_DONE, VipConnectPeerDone(peers.first, &attributes));
}

TEST(PeerConnect, ConflictingReliabilityLevelsAreToldToBoth) {
    Peers peers({.level = reliable_delivery}, {.level = unreliable});
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    EXPECT_VIP(VIP_INVALID_RELIABILITY_LEVEL, VipConnectPeerWait(peers.first, &attributes));
    EXPECT_VIP(VIP_INVALID_RELIABILITY_LEVEL, poll_until_decided(peers.second, &attributes));
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
    EXPECT_EQ(peers.second.state(), VIP_STATE_IDLE);
    // Either may change and try again.
    VIP_VI_ATTRIBUTES wanted = attributes_for(peers.second_nic, {.level = reliable_delivery});
    ASSERT_VIP(VIP_SUCCESS, VipSetViAttributes(peers.second, &wanted));
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.first, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.second, &attributes));
}

TEST(PeerConnect, ConflictingTransferSizesAreToldToBoth) {
    Peers peers({.max_transfer_bytes = 65536}, {.max_transfer_bytes = 32768});
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    EXPECT_VIP(VIP_INVALID_MTU, VipConnectPeerWait(peers.second, &attributes));
    EXPECT_VIP(VIP_INVALID_MTU, VipConnectPeerWait(peers.first, &attributes));
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
    EXPECT_EQ(peers.second.state(), VIP_STATE_IDLE);
}

TEST(PeerConnect, DisconnectCancelsAPendingRequest) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, peers.request_first(VIP_INFINITE));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(peers.first));
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_INVALID_STATE, VipConnectPeerDone(peers.first, &attributes));
    // The cancelled request matches nobody any more.
    ASSERT_VIP(VIP_SUCCESS, peers.request_second(20));
    EXPECT_VIP(VIP_TIMEOUT, VipConnectPeerWait(peers.second, &attributes));
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    ASSERT_VIP(VIP_SUCCESS, peers.request_second());
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.second, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(peers.first, &attributes));
}

TEST(PeerConnect, DisconnectEndsABlockedWait) {
    Peers peers;
    ASSERT_VIP(VIP_SUCCESS, peers.request_first());
    VIP_RETURN waited = VIP_NOT_DONE;
    std::atomic<bool> started{false};
    std::thread waiter([&] {
        VIP_VI_ATTRIBUTES attributes{};
        started = true;
        waited = VipConnectPeerWait(peers.first, &attributes);
    });
    EXPECT_TRUE(eventually([&] { return started.load(); }));
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(peers.first));
    waiter.join();
    EXPECT_VIP(VIP_INVALID_STATE, waited);
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
}

TEST(PeerConnect, ManyRequestsArePostedFirstAndAwaitedThen) {
    constexpr std::size_t count = 8;
    Nic nic;
    std::vector<std::unique_ptr<Vi>> vis;
    std::vector<Address> addresses;
    for (std::size_t i = 0; i < 2 * count; ++i) {
        vis.push_back(std::make_unique<Vi>(nic));
        addresses.emplace_back(nic, unique_discriminator());
    }
    // The second half comes in reverse, so that no request finds its partner next in line.
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipConnectPeerRequest(*vis[i], addresses[i].get(),
                                                      addresses[i + count].get(), patience_ms));
    }
    for (std::size_t i = count; i-- > 0;) {
        ASSERT_VIP(VIP_SUCCESS, VipConnectPeerRequest(*vis[i + count], addresses[i + count].get(),
                                                      addresses[i].get(), patience_ms));
    }
    VIP_VI_ATTRIBUTES attributes{};
    for (auto& vi : vis)
        EXPECT_VIP(VIP_SUCCESS, VipConnectPeerWait(*vi, &attributes));
    for (auto& vi : vis)
        EXPECT_EQ(vi->state(), VIP_STATE_CONNECTED);
}

TEST(PeerConnect, DataFlowsBothWays) {
    Pair pair({.connected = false});
    Address first(pair.client.nic, unique_discriminator());
    Address second(pair.server.nic, unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(pair.client.vi, first.get(), second.get(), patience_ms));
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(pair.server.vi, second.get(), first.get(), patience_ms));
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(pair.client.vi, &attributes));
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(pair.server.vi, &attributes));
    for (int i = 0; i < 10; ++i)
        expect_traffic(pair);
}

TEST(PeerConnect, RequestRefusesBadArguments) {
    Peers peers;
    VIP_NET_ADDRESS* local = peers.first_address.get();
    VIP_NET_ADDRESS* remote = peers.second_address.get();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerRequest(nullptr, local, remote, 1));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerRequest(peers.first, nullptr, remote, 1));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerRequest(peers.first, local, nullptr, 1));
    Address long_discriminator(
        peers.first_nic, std::string(peers.first_nic.attributes().MaxDiscriminatorLen + 1U, 'd'));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectPeerRequest(peers.first, long_discriminator.get(), remote, 1));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectPeerRequest(peers.first, local, long_discriminator.get(), 1));
    EXPECT_EQ(peers.first.state(), VIP_STATE_IDLE);
}

TEST(PeerConnect, DoneAndWaitRefuseBadArguments) {
    Peers peers;
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerDone(nullptr, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerWait(nullptr, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerDone(peers.first, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectPeerWait(peers.first, nullptr));
}

PEER(peer_connect_and_send) {
    ClientEnd end;
    auto remote = link.get<Address>();
    auto local = link.get<Address>();
    ASSERT_VIP(VIP_SUCCESS,
               VipConnectPeerRequest(end.end.vi, local.get(), remote.get(), patience_ms));
    VIP_VI_ATTRIBUTES attributes{};
    ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(end.end.vi, &attributes));
    std::byte* data = end.end.arena.take(500);
    fill_pattern(data, 500, 6);
    ASSERT_VIP(VIP_SUCCESS, end.end.post_send(end.end.arena.message(data, 500)));
    EXPECT_VIP(VIP_SUCCESS, end.end.vi.await_send().code);
    link.meet();
}

TEST(PeerConnect, TwoProcessesInEitherOrder) {
    NEEDS_TWO_PROCESSES();
    for (const bool first_here : {true, false}) {
        ServerEnd end;
        std::byte* data = end.end.arena.take(500);
        ASSERT_VIP(VIP_SUCCESS, end.end.post_recv(end.end.arena.message(data, 500)));
        Address here(end.nic, unique_discriminator());
        Address there(end.nic, unique_discriminator());
        PeerProcess peer("peer_connect_and_send");
        if (first_here) {
            ASSERT_VIP(VIP_SUCCESS,
                       VipConnectPeerRequest(end.end.vi, here.get(), there.get(), patience_ms));
        }
        peer.link.put(here);
        peer.link.put(there);
        if (!first_here) {
            ASSERT_VIP(VIP_SUCCESS,
                       VipConnectPeerRequest(end.end.vi, here.get(), there.get(), patience_ms));
        }
        VIP_VI_ATTRIBUTES attributes{};
        ASSERT_VIP(VIP_SUCCESS, VipConnectPeerWait(end.end.vi, &attributes));
        EXPECT_VIP(VIP_SUCCESS, end.end.vi.await_recv().code);
        EXPECT_TRUE(has_pattern(data, 500, 6));
        peer.link.meet();
        EXPECT_EQ(peer.wait(), 0);
    }
}

}  // namespace
}  // namespace via::test
