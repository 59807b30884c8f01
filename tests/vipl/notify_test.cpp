// SPDX-License-Identifier: BSD-3-Clause
// VipSendNotify, VipRecvNotify, VipCQNotify.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

/// Keeps every call of a handler.
class Calls {
  public:
    struct Call {
        VIP_NIC_HANDLE nic;
        VIP_VI_HANDLE vi;
        VIP_DESCRIPTOR* descriptor;
        VIP_BOOLEAN recv;
        std::thread::id thread;
    };
    static void on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                      VIP_DESCRIPTOR* descriptor) {
        static_cast<Calls*>(context)->add({nic, vi, descriptor, VIP_FALSE, {}});
    }
    static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv) {
        static_cast<Calls*>(context)->add({nic, vi, nullptr, recv, {}});
    }
    [[nodiscard]] bool await(std::size_t count) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] { return calls_.size() >= count; });
    }
    [[nodiscard]] std::size_t count() {
        const std::lock_guard lock(mutex_);
        return calls_.size();
    }
    [[nodiscard]] Call at(std::size_t index) {
        const std::lock_guard lock(mutex_);
        return index < calls_.size() ? calls_[index] : Call{};
    }

  private:
    void add(Call call) {
        call.thread = std::this_thread::get_id();
        const std::lock_guard lock(mutex_);
        calls_.push_back(call);
        changed_.notify_all();
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Call> calls_;
};

struct NotifyStage {
    Calls calls;
    Pair pair;
    VIP_DESCRIPTOR* post_receive() {
        VIP_DESCRIPTOR* descriptor = pair.server.arena.message(pair.server.arena.take(16), 16);
        EXPECT_VIP(VIP_SUCCESS, pair.server.post_recv(descriptor));
        return descriptor;
    }
    VIP_DESCRIPTOR* send() {
        VIP_DESCRIPTOR* descriptor = pair.client.arena.message(pair.client.arena.take(16), 16);
        EXPECT_VIP(VIP_SUCCESS, pair.client.post_send(descriptor));
        return descriptor;
    }
    [[nodiscard]] VIP_RETURN notify_recv() {
        return VipRecvNotify(pair.server.vi, &calls, &Calls::on_vi);
    }
    [[nodiscard]] VIP_RETURN notify_send() {
        return VipSendNotify(pair.client.vi, &calls, &Calls::on_vi);
    }
};

TEST(Notify, AReceiveThatCompletesLaterIsHandedOver) {
    NotifyStage stage;
    VIP_DESCRIPTOR* receive = stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, stage.notify_recv());
    EXPECT_EQ(stage.calls.count(), 0U);
    stage.send();
    ASSERT_TRUE(stage.calls.await(1));
    const Calls::Call call = stage.calls.at(0);
    EXPECT_EQ(call.nic, static_cast<VIP_NIC_HANDLE>(stage.pair.server.nic));
    EXPECT_EQ(call.vi, static_cast<VIP_VI_HANDLE>(stage.pair.server.vi));
    EXPECT_EQ(call.descriptor, receive);
    EXPECT_NE(call.thread, std::this_thread::get_id());
    EXPECT_NE(live_status(receive) & VIP_STATUS_DONE, 0U);
    // It was removed from the queue.
    EXPECT_TRUE(stage.pair.server.vi.recv_queue_empty());
}

TEST(Notify, AReceiveThatIsCompleteAlreadyIsHandedOver) {
    NotifyStage stage;
    VIP_DESCRIPTOR* receive = stage.post_receive();
    stage.send();
    ASSERT_VIP(VIP_SUCCESS, stage.pair.client.vi.await_send().code);
    ASSERT_TRUE(eventually([&] {
        static_cast<void>(stage.pair.server.vi.state());
        return (live_status(receive) & VIP_STATUS_DONE) != 0;
    }));
    ASSERT_VIP(VIP_SUCCESS, stage.notify_recv());
    ASSERT_TRUE(stage.calls.await(1));
    EXPECT_EQ(stage.calls.at(0).descriptor, receive);
    EXPECT_TRUE(stage.pair.server.vi.recv_queue_empty());
}

TEST(Notify, ASendIsHandedOver) {
    NotifyStage stage;
    stage.post_receive();
    VIP_DESCRIPTOR* send = stage.send();
    ASSERT_VIP(VIP_SUCCESS, stage.notify_send());
    ASSERT_TRUE(stage.calls.await(1));
    EXPECT_EQ(stage.calls.at(0).descriptor, send);
    EXPECT_EQ(stage.calls.at(0).vi, static_cast<VIP_VI_HANDLE>(stage.pair.client.vi));
    EXPECT_TRUE(stage.pair.client.vi.send_queue_empty());
}

TEST(Notify, IsOneShot) {
    NotifyStage stage;
    stage.post_receive();
    VIP_DESCRIPTOR* second = stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, stage.notify_recv());
    stage.send();
    stage.send();
    ASSERT_TRUE(stage.calls.await(1));
    // The second completion stays on the queue for whoever asks.
    EXPECT_EQ(stage.pair.server.vi.await_recv().descriptor, second);
    EXPECT_EQ(stage.calls.count(), 1U);
}

TEST(Notify, SeveralAreServedInOrder) {
    NotifyStage stage;
    constexpr std::size_t count = 10;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (std::size_t i = 0; i < count; ++i)
        receives.push_back(stage.post_receive());
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_VIP(VIP_SUCCESS, stage.notify_recv());
    for (std::size_t i = 0; i < count; ++i)
        stage.send();
    ASSERT_TRUE(stage.calls.await(count));
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(stage.calls.at(i).descriptor, receives[i]);
    }
}

TEST(Notify, OnAnEmptyQueueIsADescriptorError) {
    NotifyStage stage;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, stage.notify_recv());
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, stage.notify_send());
    // Nothing was armed.
    stage.post_receive();
    stage.send();
    EXPECT_VIP(VIP_SUCCESS, stage.pair.server.vi.await_recv().code);
    EXPECT_EQ(stage.calls.count(), 0U);
}

TEST(Notify, FlushedDescriptorsAreHandedOverToo) {
    NotifyStage stage;
    VIP_DESCRIPTOR* receive = stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, stage.notify_recv());
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(stage.pair.client.vi));
    ASSERT_TRUE(stage.calls.await(1));
    EXPECT_EQ(stage.calls.at(0).descriptor, receive);
    EXPECT_NE(live_status(receive) & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
}

TEST(Notify, OwnDisconnectHandsOverToo) {
    NotifyStage stage;
    VIP_DESCRIPTOR* receive = stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, stage.notify_recv());
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(stage.pair.server.vi));
    ASSERT_TRUE(stage.calls.await(1));
    EXPECT_EQ(stage.calls.at(0).descriptor, receive);
}

TEST(Notify, DestroyingTheViCancels) {
    Calls calls;
    {
        Nic nic;
        Arena arena(nic);
        const Vi vi(nic);
        ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.message(arena.take(8), 8), arena.handle()));
        ASSERT_VIP(VIP_SUCCESS, VipRecvNotify(vi, &calls, &Calls::on_vi));
        ASSERT_VIP(VIP_SUCCESS, VipRecvNotify(vi, &calls, &Calls::on_vi));
        ASSERT_VIP(VIP_SUCCESS, VipDisconnect(vi));
        ASSERT_TRUE(calls.await(1));
        // The second waits for a descriptor that never comes; VI and NIC go away.
    }
    EXPECT_EQ(calls.count(), 1U);
}

TEST(Notify, RefusesAQueueWithACompletionQueue) {
    Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 8, &cq));
    {
        Calls calls;
        Arena arena(nic);
        const Vi vi(nic, {.recv_cq = cq});
        ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.message(arena.take(8), 8), arena.handle()));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvNotify(vi, &calls, &Calls::on_vi));
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendNotify(vi, &calls, &Calls::on_vi));
        const Vi other(nic, {.send_cq = cq});
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendNotify(other, &calls, &Calls::on_vi));
        ASSERT_VIP(VIP_SUCCESS, VipDisconnect(vi));
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST(Notify, RefusesBadArguments) {
    NotifyStage stage;
    stage.post_receive();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvNotify(nullptr, nullptr, &Calls::on_vi));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendNotify(nullptr, nullptr, &Calls::on_vi));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipRecvNotify(stage.pair.server.vi, nullptr, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSendNotify(stage.pair.server.vi, nullptr, nullptr));
}

/// A handler that posts the descriptor and itself again, as a server without a loop would.
struct Reposter {
    VIP_MEM_HANDLE memory = 0;
    std::atomic<unsigned> handled{0};
    std::atomic<unsigned> failures{0};
    static void handle(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi,
                       VIP_DESCRIPTOR* descriptor) {
        auto* self = static_cast<Reposter*>(context);
        if ((descriptor->CS.Status & VIP_STATUS_ERROR_MASK) != 0) return;
        descriptor->CS.Length = 16;
        if (VipPostRecv(vi, descriptor, self->memory) != VIP_SUCCESS) ++self->failures;
        if (VipRecvNotify(vi, self, &Reposter::handle) != VIP_SUCCESS) ++self->failures;
        ++self->handled;
    }
};

TEST(Notify, AHandlerMayPostAndArmAgain) {
    Reposter reposter;
    NotifyStage stage;
    reposter.memory = stage.pair.server.arena.handle();
    for (int i = 0; i < 4; ++i)
        stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, VipRecvNotify(stage.pair.server.vi, &reposter, &Reposter::handle));
    const unsigned total = rounds(200);
    for (unsigned i = 0; i < total; ++i) {
        stage.send();
        ASSERT_VIP(VIP_SUCCESS, stage.pair.client.vi.await_send().code);
        ASSERT_TRUE(eventually([&] { return reposter.handled.load() == i + 1; }));
    }
    EXPECT_EQ(reposter.failures.load(), 0U);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(stage.pair.client.vi));
    ASSERT_TRUE(stage.pair.server.vi.becomes(VIP_STATE_ERROR));
}

// ---- Completion queues ----------------------------------------------------------------------

struct CqStage {
    Calls calls;
    Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Vi> sender;
    std::unique_ptr<Vi> receiver;

    CqStage() {
        EXPECT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 16, &cq));
        arena = std::make_unique<Arena>(nic);
        sender = std::make_unique<Vi>(nic);
        receiver = std::make_unique<Vi>(nic, ViOptions{.recv_cq = cq});
        EXPECT_VIP(VIP_SUCCESS, connect(*sender, *receiver).request);
    }
    ~CqStage() {
        receiver.reset();
        sender.reset();
        arena.reset();
        if (cq != nullptr) {
            EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
        }
    }
    CqStage(const CqStage&) = delete;
    CqStage& operator=(const CqStage&) = delete;
    VIP_DESCRIPTOR* post_receive() {
        VIP_DESCRIPTOR* descriptor = arena->message(arena->take(16), 16);
        EXPECT_VIP(VIP_SUCCESS, VipPostRecv(*receiver, descriptor, arena->handle()));
        return descriptor;
    }
    void send() {
        EXPECT_VIP(VIP_SUCCESS,
                   VipPostSend(*sender, arena->message(arena->take(16), 16), arena->handle()));
        EXPECT_VIP(VIP_SUCCESS, sender->await_send().code);
    }
};

TEST(CqNotify, AnEntryThatComesLaterIsHandedOver) {
    CqStage stage;
    VIP_DESCRIPTOR* receive = stage.post_receive();
    ASSERT_VIP(VIP_SUCCESS, VipCQNotify(stage.cq, &stage.calls, &Calls::on_cq));
    stage.send();
    ASSERT_TRUE(stage.calls.await(1));
    const Calls::Call call = stage.calls.at(0);
    EXPECT_EQ(call.nic, static_cast<VIP_NIC_HANDLE>(stage.nic));
    EXPECT_EQ(call.vi, static_cast<VIP_VI_HANDLE>(*stage.receiver));
    EXPECT_EQ(call.recv, VIP_TRUE);
    EXPECT_NE(call.thread, std::this_thread::get_id());
    // The entry is gone, the descriptor is not.
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    EXPECT_VIP(VIP_NOT_DONE, VipCQDone(stage.cq, &vi, &recv));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipRecvDone(*stage.receiver, &head));
    EXPECT_EQ(head, receive);
}

TEST(CqNotify, AnEntryThatIsThereIsHandedOver) {
    CqStage stage;
    VIP_DESCRIPTOR* receive = stage.post_receive();
    stage.send();
    ASSERT_TRUE(eventually([&] {
        static_cast<void>(stage.receiver->state());
        return (live_status(receive) & VIP_STATUS_DONE) != 0;
    }));
    ASSERT_VIP(VIP_SUCCESS, VipCQNotify(stage.cq, &stage.calls, &Calls::on_cq));
    ASSERT_TRUE(stage.calls.await(1));
    EXPECT_EQ(stage.calls.at(0).vi, static_cast<VIP_VI_HANDLE>(*stage.receiver));
}

TEST(CqNotify, IsOneShotAndSeveralAreServed) {
    CqStage stage;
    for (int i = 0; i < 5; ++i)
        stage.post_receive();
    for (int i = 0; i < 3; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipCQNotify(stage.cq, &stage.calls, &Calls::on_cq));
    }
    for (int i = 0; i < 5; ++i)
        stage.send();
    ASSERT_TRUE(stage.calls.await(3));
    for (int i = 0; i < 2; ++i) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        EXPECT_VIP(VIP_SUCCESS, VipCQWait(stage.cq, patience_ms, &vi, &recv));
    }
    EXPECT_EQ(stage.calls.count(), 3U);
}

TEST(CqNotify, DestroyingTheQueueCancels) {
    Calls calls;
    {
        const Nic nic;
        VIP_CQ_HANDLE cq = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 16, &cq));
        ASSERT_VIP(VIP_SUCCESS, VipCQNotify(cq, &calls, &Calls::on_cq));
        EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
    }
    EXPECT_EQ(calls.count(), 0U);
}

TEST(CqNotify, RefusesBadArguments) {
    CqStage stage;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQNotify(nullptr, &stage.calls, &Calls::on_cq));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQNotify(&something, &stage.calls, &Calls::on_cq));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQNotify(stage.cq, &stage.calls, nullptr));
}

}  // namespace
}  // namespace via::test
