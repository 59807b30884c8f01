// SPDX-License-Identifier: BSD-3-Clause
// VipDisconnect, and what a VI sees when the other end disconnects or its process dies.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

TEST(Disconnect, FlushesEverythingInOrder) {
    Pair pair;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 10; ++i) {
        receives.push_back(pair.client.arena.message(pair.client.arena.take(64), 64));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receives.back()));
    }
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    // At return all are complete: no NOT_DONE in the drain loop.
    for (VIP_DESCRIPTOR* expected : receives) {
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
        ASSERT_EQ(head, expected);
        EXPECT_EQ(head->CS.Status & VIP_STATUS_DONE, static_cast<unsigned>(VIP_STATUS_DONE));
        EXPECT_EQ(head->CS.Status & VIP_STATUS_ERROR_MASK,
                  static_cast<unsigned>(VIP_STATUS_DESC_FLUSHED_ERROR));
    }
    VIP_DESCRIPTOR poison{};
    VIP_DESCRIPTOR* head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
    EXPECT_EQ(head, nullptr);
}

TEST(Disconnect, FlushesTheRemoteSideToo) {
    Pair pair;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 10; ++i) {
        receives.push_back(pair.server.arena.message(pair.server.arena.take(64), 64));
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receives.back()));
    }
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    for (VIP_DESCRIPTOR* expected : receives) {
        const Completion completion = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_DESCRIPTOR_ERROR, completion.code);
        ASSERT_EQ(completion.descriptor, expected);
        EXPECT_EQ(completion.errors(), static_cast<unsigned>(VIP_STATUS_DESC_FLUSHED_ERROR));
    }
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
}

TEST(Disconnect, FlushesSendsThatCouldNotGo) {
    // Receives of the server are exhausted on a level that does not break: nothing is lost.
    Pair pair({.level = reliable_delivery, .arena_bytes = 16U << 20});
    const std::size_t bytes =
        std::min<std::size_t>(256 * 1024, pair.client.nic.attributes().MaxTransferSize);
    std::byte* source = pair.client.arena.take(bytes);
    std::byte* target = pair.server.arena.take(bytes);
    std::vector<VIP_DESCRIPTOR*> sends;
    for (int i = 0; i < 50; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, bytes)));
    }
    for (int i = 0; i < 50; ++i) {
        sends.push_back(pair.client.arena.message(source, bytes));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(sends.back()));
    }
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    // Some went, the rest is flushed; the order is that of posting, and all are complete now.
    bool flushing = false;
    for (VIP_DESCRIPTOR* expected : sends) {
        VIP_DESCRIPTOR* head = nullptr;
        const VIP_RETURN code = VipSendDone(pair.client.vi, &head);
        ASSERT_EQ(head, expected);
        ASSERT_NE(live_status(head) & VIP_STATUS_DONE, 0U);
        if (code == VIP_SUCCESS) {
            EXPECT_FALSE(flushing) << "a success after a flushed one";
        } else {
            ASSERT_VIP(VIP_DESCRIPTOR_ERROR, code);
            EXPECT_NE(head->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
            flushing = true;
        }
    }
    EXPECT_TRUE(pair.client.vi.send_queue_empty());
}

TEST(Disconnect, OnAnIdleViFlushesPostedReceives) {
    Pair pair({.connected = false});
    VIP_DESCRIPTOR* receive = pair.client.arena.message(pair.client.arena.take(64), 64);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
    EXPECT_EQ(head, receive);
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
}

TEST(Disconnect, RefusesBadHandles) {
    Nic nic;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(&something));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(static_cast<VIP_NIC_HANDLE>(nic)));
}

TEST(Disconnect, TheRemoteSideSeesItThroughQueryViAlone) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
}

TEST(Disconnect, TheRemoteSideIsToldOnceAndTheCallerNever) {
    Pair pair;
    const VIP_VI_HANDLE client = pair.client.vi;
    const VIP_VI_HANDLE server = pair.server.vi;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(client));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_CONN_LOST, server));
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(server));
    // A whole further life of the connection: anything late would have come by its end.
    pair.connect_again();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(server));
    EXPECT_TRUE(pair.client.nic.errors().await(VIP_ERROR_CONN_LOST, client));
    EXPECT_EQ(pair.server.nic.errors().count(VIP_ERROR_CONN_LOST, server), 1U);
    EXPECT_EQ(pair.client.nic.errors().count(VIP_ERROR_CONN_LOST, client), 1U);
    EXPECT_EQ(pair.client.nic.errors().count(), 1U);
    EXPECT_EQ(pair.server.nic.errors().count(), 1U);
}

TEST(Disconnect, DataSentBeforeItStillArrives) {
    Pair pair;
    std::byte* target = pair.server.arena.take(64);
    std::byte* source = pair.client.arena.take(64);
    fill_pattern(source, 64, 9);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(has_pattern(target, 64, 9));
}

TEST(Disconnect, CompletionsNotYetTakenKeepTheirStatus) {
    Pair pair;
    VIP_DESCRIPTOR* done = pair.server.arena.message(pair.server.arena.take(64), 64);
    VIP_DESCRIPTOR* waiting = pair.server.arena.message(pair.server.arena.take(64), 64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(done));
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(waiting));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(64), 64)));
    ASSERT_TRUE(eventually([&] {
        static_cast<void>(pair.server.vi.state());
        return (live_status(done) & VIP_STATUS_DONE) != 0;
    }));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipRecvDone(pair.server.vi, &head));
    EXPECT_EQ(head, done);
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.server.vi, &head));
    EXPECT_EQ(head, waiting);
}

TEST(Disconnect, BothAtOnce) {
    for (unsigned i = 0; i < rounds(20); ++i) {
        Pair pair;
        std::thread other([&] { EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi)); });
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
        other.join();
        EXPECT_EQ(pair.client.vi.state(), VIP_STATE_IDLE);
        EXPECT_EQ(pair.server.vi.state(), VIP_STATE_IDLE);
    }
}

TEST(Disconnect, ADescriptorOfTheOldConnectionCanBePostedAgain) {
    Pair pair;
    std::byte* target = pair.server.arena.take(64);
    VIP_DESCRIPTOR* receive = pair.server.arena.message(target, 64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
    ASSERT_EQ(pair.server.vi.drain_recv().size(), 1U);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    receive->CS.Length = 64;
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    pair.connect_again();
    std::byte* source = pair.client.arena.take(64);
    fill_pattern(source, 64, 3);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 64)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.descriptor, receive);
    EXPECT_TRUE(has_pattern(target, 64, 3));
}

PEER(connect_and_disconnect) {
    ClientEnd client;
    client.request(link);
    link.meet();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(client.end.vi));
    link.meet();
}

TEST(Disconnect, OfAnotherProcessIsSeenThroughQueryViAlone) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    PeerProcess peer("connect_and_disconnect");
    server.accept(peer.link);
    EXPECT_EQ(server.end.vi.state(), VIP_STATE_CONNECTED);
    peer.link.meet();
    EXPECT_TRUE(server.end.vi.becomes(VIP_STATE_ERROR));
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

PEER(connect_and_stay) {
    ClientEnd client;
    client.request(link);
    link.meet();
    static_cast<void>(link.get<std::uint8_t>());  // killed here
}

TEST(Disconnect, TheDeathOfAPeerProcessFlushesAndBreaks) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 4; ++i) {
        receives.push_back(server.end.arena.message(server.end.arena.take(64), 64));
        ASSERT_VIP(VIP_SUCCESS, server.end.post_recv(receives.back()));
    }
    PeerProcess peer("connect_and_stay");
    server.accept(peer.link);
    peer.link.meet();
    peer.kill();
    EXPECT_EQ(peer.wait(), -9);
    EXPECT_TRUE(server.nic.errors().await(VIP_ERROR_CONN_LOST, server.end.vi));
    EXPECT_TRUE(server.end.vi.becomes(VIP_STATE_ERROR));
    for (VIP_DESCRIPTOR* expected : receives) {
        const Completion completion = server.end.vi.await_recv();
        ASSERT_VIP(VIP_DESCRIPTOR_ERROR, completion.code);
        EXPECT_EQ(completion.descriptor, expected);
        EXPECT_EQ(completion.errors(), static_cast<unsigned>(VIP_STATUS_DESC_FLUSHED_ERROR));
    }
    EXPECT_EQ(server.nic.errors().count(VIP_ERROR_CONN_LOST, server.end.vi), 1U);
}

TEST(Disconnect, ABlockedReceiverWakesWhenThePeerProcessDies) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    ASSERT_VIP(VIP_SUCCESS,
               server.end.post_recv(server.end.arena.message(server.end.arena.take(64), 64)));
    PeerProcess peer("connect_and_stay");
    server.accept(peer.link);
    peer.link.meet();
    VIP_RETURN code = VIP_NOT_DONE;
    VIP_DESCRIPTOR* head = nullptr;
    std::thread waiter([&] { code = VipRecvWait(server.end.vi, patience_ms, &head); });
    peer.kill();
    EXPECT_EQ(peer.wait(), -9);
    waiter.join();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, code);
    ASSERT_NE(head, nullptr);
    EXPECT_NE(head->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
}

}  // namespace
}  // namespace via::test
