// SPDX-License-Identifier: BSD-3-Clause
// Notify calls and asynchronous errors: handlers run on the service thread, one per completion, in
// order, and not after what they belong to is gone.
#include <thread>

#include "na/seeded.hpp"
#include "ua/scripted_vi.hpp"

using namespace via;
using namespace via::test;
using ua::DoneOutcome;
using ua::PostOutcome;
using ua::Queue;

namespace {

/// What handlers were called with.
class Calls {
  public:
    struct Call {
        int context;
        void* nic;
        void* vi;
        VIP_DESCRIPTOR* descriptor;
        bool receive;
    };
    struct Context {
        Calls* calls;
        int number;
        std::function<void()> then = {};
    };
    static void of_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                      VIP_DESCRIPTOR* descriptor) {
        auto& own = *static_cast<Context*>(context);
        const auto then = own.then;  // the test may end with the call below
        own.calls->add({own.number, nic, vi, descriptor, false});
        if (then) then();
    }
    static void of_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                      VIP_BOOLEAN receive) {
        auto& own = *static_cast<Context*>(context);
        const auto then = own.then;
        own.calls->add({own.number, nic, vi, nullptr, receive == VIP_TRUE});
        if (then) then();
    }
    bool wait_for(std::size_t count) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(60),
                                 [&] { return calls_.size() >= count; });
    }
    std::vector<Call> take() {
        const std::lock_guard guard(mutex_);
        return std::exchange(calls_, {});
    }

  private:
    void add(const Call& call) {
        const std::lock_guard guard(mutex_);
        calls_.push_back(call);
        changed_.notify_all();
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Call> calls_;
};

class ViNotify : public ScriptedVi {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        device().serves = true;
        open(na::reliable_delivery);
        connect();
    }
    DoneOutcome notify(Queue queue, Calls::Context& context) {
        return vi->notify(handle, queue, {&context, Calls::of_vi});
    }
    Calls calls;
};

TEST_F(ViNotify, ACompletionThatIsThereIsServedAtOnce) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    endpoint->complete_receive(0, 8);
    [[maybe_unused]] const bool more = vi->progress();
    Calls::Context context{&calls, 1};
    ASSERT_EQ(notify(Queue::Receive, context), DoneOutcome::Success);
    ASSERT_TRUE(calls.wait_for(1));
    const auto seen = calls.take();
    EXPECT_EQ(seen[0].descriptor, &memory->descriptors[0].head);
    EXPECT_EQ(seen[0].vi, reinterpret_cast<void*>(handle));
    EXPECT_EQ(seen[0].nic, nic->handle());
    expect_empty(Queue::Receive);
}

TEST_F(ViNotify, ACompletionToComeIsServedWhenItComes) {
    for (std::uint32_t round = 0; round < repeated(200); ++round) {
        ASSERT_EQ(receive(message(0)), PostOutcome::Success);
        Calls::Context context{&calls, 1};
        ASSERT_EQ(notify(Queue::Receive, context), DoneOutcome::Success);
        if (round % 2 == 0) settle_service();
        endpoint->complete_receive(0, 8);
        ASSERT_TRUE(calls.wait_for(1)) << round;
        EXPECT_EQ(calls.take()[0].descriptor, &memory->descriptors[0].head);
    }
}

TEST_F(ViNotify, SeveralAreServedInOrder) {
    std::vector<std::unique_ptr<Calls::Context>> contexts;
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(send(message(static_cast<std::size_t>(i))), PostOutcome::Success);
        contexts.push_back(std::make_unique<Calls::Context>(Calls::Context{&calls, i}));
        ASSERT_EQ(notify(Queue::Send, *contexts.back()), DoneOutcome::Success);
    }
    for (int i = 0; i < 10; ++i)
        endpoint->complete_send(i == 4 ? na::status_flushed : 0, 8);
    ASSERT_TRUE(calls.wait_for(10));
    const auto seen = calls.take();
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(seen[static_cast<std::size_t>(i)].context, i);
        EXPECT_EQ(seen[static_cast<std::size_t>(i)].descriptor,
                  &memory->descriptors[static_cast<std::size_t>(i)].head);
    }
}

TEST_F(ViNotify, OnlyAsManyAreCalledAsThereAreHandlers) {
    for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(receive(message(i)), PostOutcome::Success);
    Calls::Context context{&calls, 1};
    ASSERT_EQ(notify(Queue::Receive, context), DoneOutcome::Success);
    for (int i = 0; i < 3; ++i)
        endpoint->complete_receive(0, 8);
    ASSERT_TRUE(calls.wait_for(1));
    settle_service();
    EXPECT_EQ(calls.take().size(), 1U);
    EXPECT_EQ(receive_done().descriptor, &memory->descriptors[1].head);
    EXPECT_EQ(receive_done().descriptor, &memory->descriptors[2].head);
}

TEST_F(ViNotify, FlushedDescriptorsAreServedToo) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    Calls::Context context{&calls, 1};
    ASSERT_EQ(notify(Queue::Receive, context), DoneOutcome::Success);
    endpoint->report(na::EndpointEvent::PeerDied);
    ASSERT_TRUE(calls.wait_for(1));
    EXPECT_NE(calls.take()[0].descriptor->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
}

TEST_F(ViNotify, AnEmptyQueueHasNothingToNotifyOf) {
    Calls::Context context{&calls, 1};
    EXPECT_EQ(notify(Queue::Send, context), DoneOutcome::DescriptorError);
    settle_service();
    EXPECT_TRUE(calls.take().empty());
}

TEST_F(ViNotify, HandlersMayCallAnything) {
    // A handler that posts again, asks again, and in the end destroys the VI.
    int round = 0;
    Calls::Context context{&calls, 1};
    context.then = [&] {
        if (++round < 20) {
            EXPECT_EQ(receive(message(0)), PostOutcome::Success);
            EXPECT_EQ(notify(Queue::Receive, context), DoneOutcome::Success);
            endpoint->complete_receive(0, 8);
            return;
        }
        EXPECT_TRUE(vi->disconnect(handle));
        EXPECT_TRUE(nic->destroy_vi(*vi, handle));
        EXPECT_NE(create(na::unreliable), 0U);
    };
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    ASSERT_EQ(notify(Queue::Receive, context), DoneOutcome::Success);
    endpoint->complete_receive(0, 8);
    ASSERT_TRUE(calls.wait_for(20));
    settle_service();
}

TEST_F(ViNotify, HandlersAreForgottenWithTheirVi) {
    const std::uint64_t other = create(na::unreliable);
    ua::VirtualInterface& two = vi_of(other);
    ASSERT_EQ(two.post_receive(other, message(0), memory_handle), PostOutcome::Success);
    Calls::Context context{&calls, 1};
    ASSERT_EQ(two.notify(other, Queue::Receive, {&context, Calls::of_vi}), DoneOutcome::Success);
    nic->close();
    settle_service();
    EXPECT_TRUE(calls.take().empty());
}

// ---- Completion queues -------------------------------------------------------------------------

class CqNotify : public ViNotify {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        device().serves = true;
        const auto made = create_cq();
        cq = made.first;
        cq_handle = made.second;
        open(na::reliable_delivery, cq, cq);
        connect();
    }
    /// As VipCQNotify does it.
    void notify_cq(Calls::Context& context) {
        cq->notifications.add({&context, Calls::of_cq});
        nic->process().notification_armed();
        nic->process().call_handlers_soon();
    }
    ua::CompletionQueue* cq = nullptr;
    std::uint64_t cq_handle = 0;
};

TEST_F(CqNotify, EntriesAreServedInOrder) {
    std::vector<std::unique_ptr<Calls::Context>> contexts;
    for (int i = 0; i < 6; ++i) {
        ASSERT_EQ(send(message(static_cast<std::size_t>(i))), PostOutcome::Success);
        ASSERT_EQ(receive(message(10 + static_cast<std::size_t>(i))), PostOutcome::Success);
    }
    for (int i = 0; i < 12; ++i) {
        contexts.push_back(std::make_unique<Calls::Context>(Calls::Context{&calls, i}));
        notify_cq(*contexts.back());
    }
    for (int i = 0; i < 12; ++i) {
        if (i % 2 == 0)
            endpoint->complete_send(0, 8);
        else
            endpoint->complete_receive(0, 8);
        ASSERT_TRUE(calls.wait_for(1));
        const auto seen = calls.take();
        ASSERT_EQ(seen.size(), 1U);
        EXPECT_EQ(seen[0].context, i);
        EXPECT_EQ(seen[0].vi, reinterpret_cast<void*>(handle));
        EXPECT_EQ(seen[0].receive, i % 2 == 1);
    }
}

TEST_F(CqNotify, AnEntryThatIsThereIsServedAtOnce) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    endpoint->complete_receive(0, 8);
    [[maybe_unused]] const bool more = vi->progress();
    Calls::Context context{&calls, 1};
    notify_cq(context);
    ASSERT_TRUE(calls.wait_for(1));
    EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
}

TEST_F(CqNotify, HandlersAreForgottenWithTheirQueue) {
    const auto [other, other_handle] = create_cq();
    Calls::Context context{&calls, 1};
    other->notifications.add({&context, Calls::of_cq});
    nic->process().notification_armed();
    ASSERT_TRUE(nic->destroy_cq(*other, other_handle));
    settle_service();
    EXPECT_TRUE(calls.take().empty());
    EXPECT_TRUE(other->notifications.empty());
}

// ---- Asynchronous errors -----------------------------------------------------------------------

TEST_F(ViNotify, ErrorsComeOnTheServiceThread) {
    struct Seen {
        ua::Process& process;
        std::promise<bool> on_service_thread;
    } seen{nic->process(), {}};
    nic->set_error_handler(
        [](VIP_PVOID context, VIP_ERROR_DESCRIPTOR*) {
            auto& own = *static_cast<Seen*>(context);
            own.on_service_thread.set_value(own.process.service().on_loop_thread());
        },
        &seen);
    endpoint->report(na::EndpointEvent::PeerDied);
    auto answer = seen.on_service_thread.get_future();
    ASSERT_EQ(answer.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_TRUE(answer.get());
    nic->set_error_handler(nullptr, nullptr);
}

TEST_F(ViNotify, AnErrorHandlerMayCallAnything) {
    struct Context {
        ViNotify* test;
        std::promise<void> done;
    } context{this, {}};
    nic->set_error_handler(
        [](VIP_PVOID pointer, VIP_ERROR_DESCRIPTOR* error) {
            auto& own = *static_cast<Context*>(pointer);
            auto& table = ua::vi_table();
            const auto lost = reinterpret_cast<std::uint64_t>(error->ViHandle);
            ua::VirtualInterface* found = table.find(error->ViHandle);
            EXPECT_NE(found, nullptr);
            if (found != nullptr) {
                EXPECT_TRUE(found->disconnect(lost));
                EXPECT_TRUE(found->nic()->destroy_vi(*found, lost));
            }
            own.done.set_value();
        },
        &context);
    endpoint->report(na::EndpointEvent::PeerDied);
    ASSERT_EQ(context.done.get_future().wait_for(std::chrono::seconds(60)),
              std::future_status::ready);
    nic->set_error_handler(nullptr, nullptr);
}

TEST_F(ViNotify, WithoutAHandlerErrorsAreOnlyLogged) {
    nic->set_error_handler(nullptr, nullptr);
    endpoint->report(na::EndpointEvent::PeerDied);
    EXPECT_EQ(state(), ua::ViState::Error);
    settle_service();
    EXPECT_TRUE(errors.take().empty());
}

TEST_F(ViNotify, NoErrorComesAfterTheNicIsClosed) {
    std::promise<void> blocked;
    std::promise<void> go_on;
    // The service thread is busy while the error is raised and the NIC closed.
    nic->process().service().post([&] {
        blocked.set_value();
        go_on.get_future().wait_for(std::chrono::seconds(60));
    });
    blocked.get_future().wait();
    VIP_ERROR_DESCRIPTOR error{};
    error.ErrorCode = VIP_ERROR_CONN_LOST;
    nic->raise(error);
    // It waits for what the service thread is doing.
    std::thread closing([&] { nic->close(); });
    const base::Deadline deadline = base::Deadline::after_milliseconds(60000);
    while (ua::Nic::find(nic->handle()) != nullptr && !deadline.expired())
        std::this_thread::yield();
    EXPECT_EQ(ua::Nic::find(nic->handle()), nullptr);
    go_on.set_value();
    closing.join();
    settle_service();
    EXPECT_TRUE(errors.take().empty());
}

TEST_F(ViNotify, AFloodOfErrorsIsCutOff) {
    std::promise<void> blocked;
    std::promise<void> go_on;
    nic->process().service().post([&] {
        blocked.set_value();
        go_on.get_future().wait_for(std::chrono::seconds(60));
    });
    blocked.get_future().wait();
    VIP_ERROR_DESCRIPTOR error{};
    error.ErrorCode = VIP_ERROR_RECVQ_EMPTY;
    for (int i = 0; i < 5000; ++i)
        nic->raise(error);
    go_on.set_value();
    settle_service();
    const std::size_t told = errors.take().size();
    EXPECT_GE(told, 100U);
    EXPECT_LE(told, 2000U);
    nic->raise(error);
    settle_service();
    EXPECT_EQ(errors.take().size(), 1U) << "it goes on afterwards";
}

}  // namespace
