// SPDX-License-Identifier: BSD-3-Clause
// VipCreateCQ, VipDestroyCQ, VipResizeCQ, VipCQDone, VipCQWait.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

class Cq {
  public:
    explicit Cq(const Nic& nic, VIP_ULONG entries = 64) {
        EXPECT_VIP(VIP_SUCCESS, VipCreateCQ(nic, entries, &handle_));
    }
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;
    ~Cq() {
        if (handle_ != nullptr) {
            EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(handle_));
        }
    }
    operator VIP_CQ_HANDLE() const { return handle_; }  // NOLINT: the tests read as C calls
    void forget() { handle_ = nullptr; }

  private:
    VIP_CQ_HANDLE handle_ = nullptr;
};

struct Entry {
    VIP_RETURN code = VIP_NOT_DONE;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
};

Entry poll(VIP_CQ_HANDLE cq) {
    Entry entry;
    entry.code = VipCQDone(cq, &entry.vi, &entry.recv);
    return entry;
}

Entry await(VIP_CQ_HANDLE cq) {
    Entry entry;
    static_cast<void>(eventually([&] {
        entry = poll(cq);
        return entry.code != VIP_NOT_DONE;
    }));
    return entry;
}

/// A sender without CQs and a receiver both of whose queues report to one.
struct Stage {
    Nic nic;
    Cq cq;
    Arena arena;
    Vi sender;
    Vi receiver;

    explicit Stage(VIP_ULONG entries = 64, bool connected = true,
                   VIP_RELIABILITY_LEVEL level = reliable_delivery)
        : cq(nic, entries),
          arena(nic, {.bytes = 4U << 20}),
          sender(nic, {.level = level}),
          receiver(nic, {.level = level, .send_cq = cq, .recv_cq = cq}) {
        if (connected) {
            EXPECT_VIP(VIP_SUCCESS, connect(sender, receiver).request);
        }
    }
    VIP_DESCRIPTOR* message(std::size_t bytes = 16) {
        return arena.message(arena.take(bytes), bytes);
    }
    VIP_DESCRIPTOR* post_receive(std::size_t bytes = 16) {
        VIP_DESCRIPTOR* descriptor = message(bytes);
        EXPECT_VIP(VIP_SUCCESS, VipPostRecv(receiver, descriptor, arena.handle()));
        return descriptor;
    }
    void send(std::size_t bytes = 16) {
        EXPECT_VIP(VIP_SUCCESS, VipPostSend(sender, message(bytes), arena.handle()));
        EXPECT_VIP(VIP_SUCCESS, sender.await_send().code);
    }
};

TEST(CompletionQueue, AnEntryTellsWhichQueueOfWhichVi) {
    Stage stage;
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
    VIP_DESCRIPTOR* receive = stage.post_receive();
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
    stage.send();
    Entry entry = await(stage.cq);
    EXPECT_VIP(VIP_SUCCESS, entry.code);
    EXPECT_EQ(entry.vi, static_cast<VIP_VI_HANDLE>(stage.receiver));
    EXPECT_EQ(entry.recv, VIP_TRUE);
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
    EXPECT_EQ(head, receive);
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);

    ASSERT_VIP(VIP_SUCCESS, VipPostRecv(stage.sender, stage.message(), stage.arena.handle()));
    VIP_DESCRIPTOR* send = stage.message();
    ASSERT_VIP(VIP_SUCCESS, VipPostSend(stage.receiver, send, stage.arena.handle()));
    entry = await(stage.cq);
    EXPECT_VIP(VIP_SUCCESS, entry.code);
    EXPECT_EQ(entry.vi, static_cast<VIP_VI_HANDLE>(stage.receiver));
    EXPECT_EQ(entry.recv, VIP_FALSE);
    EXPECT_VIP(VIP_SUCCESS, VipSendDone(stage.receiver, &head));
    EXPECT_EQ(head, send);
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
}

TEST(CompletionQueue, TheDescriptorStaysOnItsQueue) {
    Stage stage;
    stage.post_receive();
    stage.send();
    EXPECT_VIP(VIP_SUCCESS, await(stage.cq).code);
    EXPECT_FALSE(stage.receiver.recv_queue_empty());
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
    EXPECT_TRUE(stage.receiver.recv_queue_empty());
}

TEST(CompletionQueue, OneEntryForEachCompletion) {
    Stage stage;
    constexpr int count = 40;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < count; ++i)
        receives.push_back(stage.post_receive());
    for (int i = 0; i < count; ++i)
        stage.send();
    for (VIP_DESCRIPTOR* expected : receives) {
        ASSERT_VIP(VIP_SUCCESS, await(stage.cq).code);
        VIP_DESCRIPTOR* head = nullptr;
        // With the entry comes the descriptor: never NOT_DONE here.
        ASSERT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
        ASSERT_EQ(head, expected);
    }
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
}

TEST(CompletionQueue, EntriesComeInTheOrderOfCompletion) {
    Nic nic;
    const Cq cq(nic);
    Arena arena(nic);
    constexpr std::size_t count = 5;
    std::vector<std::unique_ptr<Vi>> senders;
    std::vector<std::unique_ptr<Vi>> receivers;
    for (std::size_t i = 0; i < count; ++i) {
        senders.push_back(std::make_unique<Vi>(nic, ViOptions{.level = reliable_reception}));
        receivers.push_back(
            std::make_unique<Vi>(nic, ViOptions{.level = reliable_reception, .recv_cq = cq}));
        ASSERT_VIP(VIP_SUCCESS, connect(*senders[i], *receivers[i]).request);
        for (int j = 0; j < 4; ++j) {
            ASSERT_VIP(VIP_SUCCESS,
                       VipPostRecv(*receivers[i], arena.message(arena.take(8), 8), arena.handle()));
        }
    }
    // At reliable reception a completed send has completed at the receiver, so this is the order.
    const std::size_t order[] = {3, 1, 4, 1, 0, 2, 2, 4, 3, 0};
    for (const std::size_t which : order) {
        ASSERT_VIP(VIP_SUCCESS,
                   VipPostSend(*senders[which], arena.message(arena.take(8), 8), arena.handle()));
        ASSERT_VIP(VIP_SUCCESS, senders[which]->await_send().code);
    }
    for (const std::size_t which : order) {
        const Entry entry = await(cq);
        ASSERT_VIP(VIP_SUCCESS, entry.code);
        EXPECT_EQ(entry.vi, static_cast<VIP_VI_HANDLE>(*receivers[which]));
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_SUCCESS, VipRecvDone(*receivers[which], &head));
    }
    receivers.clear();
    senders.clear();
}

TEST(CompletionQueue, SendAndReceiveQueuesMayHaveDifferentOnes) {
    Nic nic;
    const Cq send_cq(nic);
    const Cq recv_cq(nic);
    Arena arena(nic);
    Vi one(nic, {.send_cq = send_cq, .recv_cq = recv_cq});
    Vi two(nic, {.send_cq = send_cq, .recv_cq = recv_cq});
    ASSERT_VIP(VIP_SUCCESS, connect(one, two).request);
    ASSERT_VIP(VIP_SUCCESS, VipPostRecv(two, arena.message(arena.take(8), 8), arena.handle()));
    ASSERT_VIP(VIP_SUCCESS, VipPostSend(one, arena.message(arena.take(8), 8), arena.handle()));
    Entry entry = await(send_cq);
    EXPECT_VIP(VIP_SUCCESS, entry.code);
    EXPECT_EQ(entry.vi, static_cast<VIP_VI_HANDLE>(one));
    EXPECT_EQ(entry.recv, VIP_FALSE);
    entry = await(recv_cq);
    EXPECT_VIP(VIP_SUCCESS, entry.code);
    EXPECT_EQ(entry.vi, static_cast<VIP_VI_HANDLE>(two));
    EXPECT_EQ(entry.recv, VIP_TRUE);
    EXPECT_VIP(VIP_NOT_DONE, poll(send_cq).code);
    EXPECT_VIP(VIP_NOT_DONE, poll(recv_cq).code);
}

TEST(CompletionQueue, FlushedDescriptorsGiveEntriesToo) {
    Stage stage;
    for (int i = 0; i < 6; ++i)
        stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(stage.receiver));
    for (int i = 0; i < 6; ++i) {
        const Entry entry = poll(stage.cq);
        ASSERT_VIP(VIP_SUCCESS, entry.code);
        EXPECT_EQ(entry.recv, VIP_TRUE);
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(stage.receiver, &head));
        ASSERT_NE(head, nullptr);
        EXPECT_NE(head->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
    }
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
}

TEST(CompletionQueue, TheErrorStateGivesEntriesToo) {
    Stage stage;
    for (int i = 0; i < 3; ++i)
        stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(stage.sender));
    for (int i = 0; i < 3; ++i) {
        // Nothing but the CQ is looked at.
        const Entry entry = await(stage.cq);
        ASSERT_VIP(VIP_SUCCESS, entry.code);
        EXPECT_EQ(entry.vi, static_cast<VIP_VI_HANDLE>(stage.receiver));
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(stage.receiver, &head));
    }
    // Posts in Error complete at once, through the CQ as well.
    ASSERT_VIP(VIP_SUCCESS, VipPostSend(stage.receiver, stage.message(), stage.arena.handle()));
    const Entry entry = await(stage.cq);
    EXPECT_VIP(VIP_SUCCESS, entry.code);
    EXPECT_EQ(entry.recv, VIP_FALSE);
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(stage.receiver, &head));
}

TEST(CompletionQueue, DoesNotOverflowHoweverSmall) {
    Stage stage(1);
    constexpr int count = 500;
    for (int i = 0; i < count; ++i)
        stage.post_receive();
    for (int i = 0; i < count; ++i)
        stage.send();
    for (int i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS, await(stage.cq).code) << i;
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
    }
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
}

TEST(CompletionQueue, ResizeKeepsTheEntries) {
    Stage stage(8);
    for (int i = 0; i < 20; ++i)
        stage.post_receive();
    for (int i = 0; i < 10; ++i)
        stage.send();
    EXPECT_VIP(VIP_SUCCESS, VipResizeCQ(stage.cq, 1000));
    for (int i = 0; i < 5; ++i) {
        ASSERT_VIP(VIP_SUCCESS, await(stage.cq).code);
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
    }
    EXPECT_VIP(VIP_SUCCESS, VipResizeCQ(stage.cq, 1));
    for (int i = 0; i < 10; ++i)
        stage.send();
    for (int i = 0; i < 15; ++i) {
        ASSERT_VIP(VIP_SUCCESS, await(stage.cq).code) << i;
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
    }
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
}

TEST(CompletionQueue, ResizeWorksWhileCompletionsArrive) {
    Stage stage(4);
    const auto count = static_cast<int>(rounds(1000));
    for (int i = 0; i < count; ++i)
        stage.post_receive();
    std::atomic<bool> stop{false};
    std::thread resizer([&] {
        for (VIP_ULONG entries = 1; !stop; entries = entries % 512 + 1) {
            EXPECT_VIP(VIP_SUCCESS, VipResizeCQ(stage.cq, entries));
        }
    });
    for (int i = 0; i < count; ++i) {
        stage.send();
        const Entry entry = await(stage.cq);
        EXPECT_VIP(VIP_SUCCESS, entry.code);
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_SUCCESS, VipRecvDone(stage.receiver, &head));
    }
    stop = true;
    resizer.join();
    EXPECT_VIP(VIP_NOT_DONE, poll(stage.cq).code);
}

TEST(CompletionQueue, CreateAndResizeRefuseBadArguments) {
    const Nic nic;
    VIP_CQ_HANDLE handle = nullptr;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateCQ(nullptr, 8, &handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 8, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 0, &handle));
    const Cq cq(nic);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipResizeCQ(nullptr, 8));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipResizeCQ(&something, 8));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipResizeCQ(cq, 0));
}

TEST(CompletionQueue, MoreEntriesThanTheMaximumAreAResourceError) {
    const Nic nic;
    VIP_CQ_HANDLE handle = nullptr;
    const VIP_ULONG maximum = nic.attributes().MaxCQEntries;
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipCreateCQ(nic, maximum + 1, &handle));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipCreateCQ(nic, ~0UL, &handle));
    const Cq cq(nic, maximum);
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipResizeCQ(cq, maximum + 1));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipResizeCQ(cq, ~0UL));
    EXPECT_VIP(VIP_SUCCESS, VipResizeCQ(cq, maximum));
}

TEST(CompletionQueue, CreateBeyondTheMaximumIsAResourceError) {
    const Nic nic;
    const VIP_ULONG maximum = nic.attributes().MaxCQ;
    if (maximum > 70000) GTEST_SKIP() << "MaxCQ is " << maximum;
    std::vector<VIP_CQ_HANDLE> queues;
    VIP_RETURN code = VIP_SUCCESS;
    while (queues.size() <= maximum) {
        VIP_CQ_HANDLE handle = nullptr;
        code = VipCreateCQ(nic, 1, &handle);
        if (code != VIP_SUCCESS) break;
        queues.push_back(handle);
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, code);
    ASSERT_FALSE(queues.empty());
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(queues.back()));
    EXPECT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 1, &queues.back()));
    for (VIP_CQ_HANDLE handle : queues)
        ASSERT_VIP(VIP_SUCCESS, VipDestroyCQ(handle));
}

TEST(CompletionQueue, DestroyWithAViAttachedIsAResourceError) {
    Nic nic;
    Cq cq(nic);
    {
        const Vi send_only(nic, {.send_cq = cq});
        EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyCQ(cq));
        const Vi recv_only(nic, {.recv_cq = cq});
        EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyCQ(cq));
    }
    const VIP_CQ_HANDLE handle = cq;
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(handle));
    cq.forget();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyCQ(handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, poll(handle).code);
}

TEST(CompletionQueue, DestroyRefusesBadHandles) {
    Nic nic;
    const Vi vi(nic);
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyCQ(nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyCQ(&something));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyCQ(static_cast<VIP_VI_HANDLE>(vi)));
}

TEST(CompletionQueue, EntriesOfADestroyedViVanish) {
    Nic nic;
    const Cq cq(nic);
    Arena arena(nic);
    {
        const Vi vi(nic, {.recv_cq = cq});
        for (int i = 0; i < 3; ++i) {
            ASSERT_VIP(VIP_SUCCESS,
                       VipPostRecv(vi, arena.message(arena.take(8), 8), arena.handle()));
        }
        // The destructor drains the queue without looking at the CQ, as some programs do.
    }
    EXPECT_VIP(VIP_NOT_DONE, poll(cq).code);
}

TEST(CompletionQueue, DoneRefusesBadArguments) {
    const Nic nic;
    const Cq cq(nic);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQDone(nullptr, &vi, &recv));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQDone(cq, nullptr, &recv));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQDone(cq, &vi, nullptr));
}

TEST(CompletionQueue, WaitReturnsTheEntry) {
    Stage stage;
    stage.post_receive();
    stage.send();
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipCQWait(stage.cq, patience_ms, &vi, &recv));
    EXPECT_EQ(vi, static_cast<VIP_VI_HANDLE>(stage.receiver));
    EXPECT_EQ(recv, VIP_TRUE);
}

TEST(CompletionQueue, WaitTimesOut) {
    Stage stage;
    stage.post_receive();
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_TIMEOUT, VipCQWait(stage.cq, 0, &vi, &recv));
    EXPECT_VIP(VIP_TIMEOUT, VipCQWait(stage.cq, 1, &vi, &recv));
    const auto start = Clock::now();
    EXPECT_VIP(VIP_TIMEOUT, VipCQWait(stage.cq, 50, &vi, &recv));
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(50));
}

TEST(CompletionQueue, WaitWorksWithoutAnyVi) {
    const Nic nic;
    const Cq cq(nic);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_TIMEOUT, VipCQWait(cq, 10, &vi, &recv));
}

TEST(CompletionQueue, WaitTakesBothInfinitiesAndWakes) {
    for (const VIP_ULONG infinity : {VIP_INFINITE, infinite_32}) {
        Stage stage;
        stage.post_receive();
        VIP_RETURN code = VIP_NOT_DONE;
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        std::thread waiter([&] { code = VipCQWait(stage.cq, infinity, &vi, &recv); });
        stage.send();
        waiter.join();
        EXPECT_VIP(VIP_SUCCESS, code);
        EXPECT_EQ(vi, static_cast<VIP_VI_HANDLE>(stage.receiver));
    }
}

TEST(CompletionQueue, WaitWakesForCompletionsOfAViAttachedLater) {
    Nic nic;
    const Cq cq(nic);
    Arena arena(nic);
    VIP_RETURN code = VIP_NOT_DONE;
    VIP_VI_HANDLE seen = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    std::thread waiter([&] { code = VipCQWait(cq, patience_ms, &seen, &recv); });
    {
        Vi sender(nic);
        Vi receiver(nic, {.recv_cq = cq});
        EXPECT_VIP(VIP_SUCCESS, connect(sender, receiver).request);
        EXPECT_VIP(VIP_SUCCESS,
                   VipPostRecv(receiver, arena.message(arena.take(8), 8), arena.handle()));
        EXPECT_VIP(VIP_SUCCESS,
                   VipPostSend(sender, arena.message(arena.take(8), 8), arena.handle()));
        waiter.join();
        EXPECT_VIP(VIP_SUCCESS, code);
        EXPECT_EQ(seen, static_cast<VIP_VI_HANDLE>(receiver));
    }
}

TEST(CompletionQueue, WaitRefusesBadArguments) {
    const Nic nic;
    const Cq cq(nic);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQWait(nullptr, 1, &vi, &recv));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQWait(cq, 1, nullptr, &recv));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQWait(cq, 1, &vi, nullptr));
}

TEST(CompletionQueue, WaitSleeps) {
    // A thread that is blocked uses next to no processor time; a spinning one would use it all.
    Stage stage;
    stage.post_receive();
    const auto cpu_time = [] {
        timespec now{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    const auto before = cpu_time();
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_TIMEOUT, VipCQWait(stage.cq, 500, &vi, &recv));
    EXPECT_LT(cpu_time() - before, std::chrono::milliseconds(250));
}

PEER(many_vis_one_queue) {
    constexpr std::uint32_t count = 8;
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    const Cq cq(nic);
    Arena arena(nic, {.tag = tag});
    std::vector<std::unique_ptr<Vi>> vis;
    const auto messages = link.get<std::uint32_t>();
    for (std::uint32_t i = 0; i < count; ++i) {
        vis.push_back(std::make_unique<Vi>(nic, ViOptions{.tag = tag, .recv_cq = cq}));
        for (std::uint32_t j = 0; j < messages; ++j) {
            ASSERT_VIP(VIP_SUCCESS,
                       VipPostRecv(*vis[i], arena.message(arena.take(16, 16), 16), arena.handle()));
        }
        auto remote = link.get<Address>();
        Address local(nic, unique_discriminator());
        ASSERT_VIP(VIP_SUCCESS, request_until_matched(*vis[i], local, remote));
    }
    link.meet();
    std::map<VIP_VI_HANDLE, std::uint32_t> got;
    for (std::uint32_t i = 0; i < count * messages; ++i) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        ASSERT_VIP(VIP_SUCCESS, VipCQWait(cq, patience_ms, &vi, &recv));
        ASSERT_EQ(recv, VIP_TRUE);
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipRecvDone(vi, &head));
        ASSERT_EQ(head->CS.ImmediateData, got[vi]);
        ++got[vi];
    }
    for (auto& vi : vis)
        EXPECT_EQ(got[*vi], messages);
    link.meet();
    vis.clear();
}

TEST(CompletionQueue, ServesManyVisOfAnotherProcess) {
    NEEDS_TWO_PROCESSES();
    constexpr std::uint32_t count = 8;
    const auto messages = static_cast<std::uint32_t>(rounds(200));
    PeerProcess peer("many_vis_one_queue");
    peer.link.put(messages);
    std::vector<std::unique_ptr<ServerEnd>> ends;
    for (std::uint32_t i = 0; i < count; ++i) {
        ends.push_back(std::make_unique<ServerEnd>());
        ends.back()->accept(peer.link);
    }
    peer.link.meet();
    for (std::uint32_t j = 0; j < messages; ++j) {
        for (auto& end : ends) {
            VIP_DESCRIPTOR* send =
                end->end.arena.immediate_message(end->end.arena.take(16, 16), 16, j);
            ASSERT_VIP(VIP_SUCCESS, end->end.post_send(send));
            ASSERT_VIP(VIP_SUCCESS, end->end.vi.await_send().code);
        }
    }
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

}  // namespace
}  // namespace via::test
