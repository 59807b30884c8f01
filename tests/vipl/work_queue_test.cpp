// SPDX-License-Identifier: BSD-3-Clause
// VipSendDone, VipRecvDone, VipSendWait, VipRecvWait: in what order things complete, and who hears
// of it.
#include <chrono>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

TEST(WorkQueue, DoneOnAnEmptyQueueIsADescriptorErrorWithNull) {
    Pair pair;
    VIP_DESCRIPTOR poison{};
    VIP_DESCRIPTOR* head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(pair.client.vi, &head));
    EXPECT_EQ(head, nullptr);
    head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
    EXPECT_EQ(head, nullptr);
}

TEST(WorkQueue, DoneOnAWaitingHeadIsNotDone) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS,
               pair.server.post_recv(pair.server.arena.message(pair.server.arena.take(8), 8)));
    VIP_DESCRIPTOR* head = nullptr;
    for (int i = 0; i < 100; ++i)
        EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.server.vi, &head));
}

TEST(WorkQueue, DoneRefusesBadArguments) {
    Pair pair;
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendDone(nullptr, &head));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvDone(nullptr, &head));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendDone(pair.client.vi, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvDone(pair.client.vi, nullptr));
}

TEST(WorkQueue, ADescriptorIsReturnedOnce) {
    Pair pair;
    expect_traffic(pair);
    EXPECT_EQ(pair.client.vi.drain_send().size(), 0U);
    EXPECT_EQ(pair.client.vi.drain_recv().size(), 0U);
    EXPECT_EQ(pair.server.vi.drain_send().size(), 0U);
    EXPECT_EQ(pair.server.vi.drain_recv().size(), 0U);
}

TEST(WorkQueue, SendAndReceiveQueuesAreIndependent) {
    Pair pair;
    // The client's receive waits; its sends complete all the same.
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_recv(pair.client.arena.message(pair.client.arena.take(8), 8)));
    for (int i = 0; i < 3; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.server.post_recv(pair.server.arena.message(pair.server.arena.take(8), 8)));
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
        EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    }
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.client.vi, &head));
}

TEST(WorkQueue, ReceivesPostedBeforeTheConnectionServeIt) {
    Pair pair({.connected = false});
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 5; ++i) {
        receives.push_back(pair.server.arena.message(pair.server.arena.take(8), 8));
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receives.back()));
    }
    pair.connect_again();
    for (VIP_DESCRIPTOR* expected : receives) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
        EXPECT_EQ(pair.server.vi.await_recv().descriptor, expected);
    }
}

TEST(WorkQueue, PostingClearsTheStatus) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
    receive->CS.Status = 0xFFFFFFFF;
    send->CS.Status = 0xFFFFFFFF;
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    EXPECT_EQ(live_status(receive) & done_bit, 0U);
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.server.vi, &head));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    EXPECT_EQ(pair.client.vi.await_send().status(), done_bit | VIP_STATUS_OP_SEND);
    EXPECT_EQ(pair.server.vi.await_recv().status(), done_bit | VIP_STATUS_OP_RECEIVE);
}

TEST(WorkQueue, DoneIsWrittenLast) {
    // One thread dequeues, the other looks at Status alone: with DONE all else must be there.
    Pair pair;
    constexpr std::size_t bytes = 3000;
    std::byte* source = pair.client.arena.take(bytes);
    std::byte* target = pair.server.arena.take(bytes);
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    for (std::uint32_t i = 0; i < rounds(200); ++i) {
        fill_pattern(source, bytes, i);
        const Segment into = pair.server.arena.segment(target, bytes);
        const Segment from = pair.client.arena.segment(source, bytes - i);
        fill(receive, {&into, 1});
        fill(send, {&from, 1}, VIP_CONTROL_IMMEDIATE);
        send->CS.ImmediateData = i;
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        VIP_DESCRIPTOR* head = nullptr;
        std::thread waiter(
            [&] { EXPECT_VIP(VIP_SUCCESS, VipRecvWait(pair.server.vi, patience_ms, &head)); });
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        EXPECT_TRUE(eventually([&] { return (live_status(receive) & done_bit) != 0; }));
        EXPECT_EQ(live_status(receive), done_bit | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
        EXPECT_EQ(receive->CS.Length, bytes - i);
        EXPECT_EQ(receive->CS.ImmediateData, i);
        EXPECT_TRUE(has_pattern(target, bytes - i, i));
        waiter.join();
        ASSERT_EQ(head, receive);
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    }
}

TEST(WorkQueue, APostedDescriptorMayCarryAnyNextPointer) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
    for (VIP_DESCRIPTOR* descriptor : {receive, send}) {
        descriptor->CS.Next.AddressBits = 0xDEADBEEFDEADBEEF;
        descriptor->CS.NextHandle = 0xBADBAD;
    }
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
}

TEST(WorkQueue, SendsPostedWhileIdleAreFlushedInOrder) {
    Pair pair({.connected = false});
    std::vector<VIP_DESCRIPTOR*> sends;
    for (int i = 0; i < 5; ++i) {
        sends.push_back(pair.client.arena.message(pair.client.arena.take(8), 8));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(sends.back()));
    }
    for (VIP_DESCRIPTOR* expected : sends) {
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(pair.client.vi, &head));
        ASSERT_EQ(head, expected);
        EXPECT_EQ(head->CS.Status & VIP_STATUS_ERROR_MASK, flushed_error);
    }
    // They were not kept for later.
    pair.connect_again();
    expect_traffic(pair);
}

// ---- Waiting --------------------------------------------------------------------------------

TEST(Wait, ReturnsTheDescriptor) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipSendWait(pair.client.vi, patience_ms, &head));
    EXPECT_EQ(head, send);
    EXPECT_VIP(VIP_SUCCESS, VipRecvWait(pair.server.vi, patience_ms, &head));
    EXPECT_EQ(head, receive);
}

TEST(Wait, TimesOutAndLeavesTheDescriptorPosted) {
    Pair pair;
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_TIMEOUT, VipRecvWait(pair.server.vi, 0, &head));
    EXPECT_VIP(VIP_TIMEOUT, VipRecvWait(pair.server.vi, 1, &head));
    EXPECT_VIP(VIP_TIMEOUT, VipRecvWait(pair.server.vi, 20, &head));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    EXPECT_VIP(VIP_SUCCESS, VipRecvWait(pair.server.vi, patience_ms, &head));
    EXPECT_EQ(head, receive);
}

TEST(Wait, TimesOutNoEarlierThanAsked) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS,
               pair.server.post_recv(pair.server.arena.message(pair.server.arena.take(8), 8)));
    const auto start = Clock::now();
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_TIMEOUT, VipRecvWait(pair.server.vi, 50, &head));
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(50));
}

TEST(Wait, OnAnEmptyQueueReturnsAtOnce) {
    Pair pair;
    VIP_DESCRIPTOR poison{};
    VIP_DESCRIPTOR* head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendWait(pair.client.vi, VIP_INFINITE, &head));
    EXPECT_EQ(head, nullptr);
    head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvWait(pair.client.vi, infinite_32, &head));
    EXPECT_EQ(head, nullptr);
}

TEST(Wait, ReturnsDescriptorErrorWithTheDescriptor) {
    Pair pair({.connected = false});
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
    VIP_DESCRIPTOR* receive = pair.client.arena.message(pair.client.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendWait(pair.client.vi, patience_ms, &head));
    EXPECT_EQ(head, send);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvWait(pair.client.vi, patience_ms, &head));
    EXPECT_EQ(head, receive);
}

TEST(Wait, TakesBothInfinitiesAndWakes) {
    for (const VIP_ULONG infinity : {VIP_INFINITE, infinite_32}) {
        Pair pair;
        VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        VIP_RETURN code = VIP_NOT_DONE;
        VIP_DESCRIPTOR* head = nullptr;
        std::thread waiter([&] { code = VipRecvWait(pair.server.vi, infinity, &head); });
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
        waiter.join();
        EXPECT_VIP(VIP_SUCCESS, code);
        EXPECT_EQ(head, receive);
        EXPECT_VIP(VIP_SUCCESS, VipSendWait(pair.client.vi, infinity, &head));
    }
}

TEST(Wait, RefusesAQueueWithACompletionQueue) {
    Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 8, &cq));
    {
        const Vi both(nic, {.send_cq = cq, .recv_cq = cq});
        const Vi send_only(nic, {.send_cq = cq});
        const Vi recv_only(nic, {.recv_cq = cq});
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendWait(both, 1, &head));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvWait(both, 1, &head));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendWait(send_only, 1, &head));
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvWait(send_only, 1, &head));
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendWait(recv_only, 1, &head));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvWait(recv_only, 1, &head));
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST(Wait, RefusesBadArguments) {
    Pair pair;
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendWait(nullptr, 1, &head));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvWait(nullptr, 1, &head));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendWait(pair.client.vi, 1, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvWait(pair.client.vi, 1, nullptr));
}

PEER(answer_by_waiting) {
    ClientEnd client;
    const auto total = link.get<std::uint32_t>();
    client.request(link);
    std::byte* data = client.end.arena.take(64);
    VIP_DESCRIPTOR* receive = client.end.arena.message(data, 64);
    VIP_DESCRIPTOR* send = client.end.arena.descriptor();
    ASSERT_VIP(VIP_SUCCESS, client.end.post_recv(receive));
    link.meet();
    for (std::uint32_t i = 0; i < total; ++i) {
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipRecvWait(client.end.vi, patience_ms, &head));
        receive->CS.Length = 64;
        ASSERT_VIP(VIP_SUCCESS, client.end.post_recv(receive));
        const Segment from = client.end.arena.segment(data, 64);
        fill(send, {&from, 1});
        ASSERT_VIP(VIP_SUCCESS, client.end.post_send(send));
        ASSERT_VIP(VIP_SUCCESS, VipSendWait(client.end.vi, patience_ms, &head));
    }
    link.meet();
}

TEST(Wait, PingPongOfBlockingProcesses) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("answer_by_waiting");
    const auto total = static_cast<std::uint32_t>(rounds(500));
    peer.link.put(total);
    ServerEnd server;
    server.accept(peer.link);
    peer.link.meet();
    std::byte* data = server.end.arena.take(64);
    std::byte* back = server.end.arena.take(64);
    VIP_DESCRIPTOR* receive = server.end.arena.descriptor();
    VIP_DESCRIPTOR* send = server.end.arena.descriptor();
    for (std::uint32_t i = 0; i < total; ++i) {
        fill_pattern(data, 64, i);
        const Segment into = server.end.arena.segment(back, 64);
        const Segment from = server.end.arena.segment(data, 64);
        fill(receive, {&into, 1});
        fill(send, {&from, 1});
        ASSERT_VIP(VIP_SUCCESS, server.end.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, server.end.post_send(send));
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipSendWait(server.end.vi, patience_ms, &head));
        ASSERT_VIP(VIP_SUCCESS, VipRecvWait(server.end.vi, patience_ms, &head));
        ASSERT_TRUE(has_pattern(back, 64, i));
    }
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

}  // namespace
}  // namespace via::test
