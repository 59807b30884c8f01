// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: which work queue has a completion, in the order they completed.
#include <deque>
#include <thread>

#include "na/seeded.hpp"
#include "ua/scripted_vi.hpp"
#include "ua/wait.hpp"

using namespace via;
using namespace via::test;
using base::Code;
using ua::CompletionEntry;
using ua::DoneOutcome;
using ua::PostOutcome;
using ua::Queue;

namespace {

class Cq : public ScriptedNic {};

TEST_F(Cq, GivesEntriesInTheOrderTheyCame) {
    const auto [cq, cq_handle] = create_cq(4);
    CompletionEntry entry;
    EXPECT_FALSE(cq->pop(entry));
    for (std::uint64_t i = 1; i <= 3; ++i) {
        cq->reserve();
        cq->push(i, i % 2 == 0);
    }
    for (std::uint64_t i = 1; i <= 3; ++i) {
        ASSERT_TRUE(cq->pop(entry));
        EXPECT_EQ(entry.vi, i);
        EXPECT_EQ(entry.receive, i % 2 == 0);
    }
    EXPECT_FALSE(cq->pop(entry));
}

TEST_F(Cq, NeverOverflows) {
    const auto [cq, cq_handle] = create_cq(1);
    constexpr std::uint64_t count = 5000;
    for (std::uint64_t i = 0; i < count; ++i)
        cq->reserve();
    for (std::uint64_t i = 0; i < count; ++i)
        cq->push(i, true);
    CompletionEntry entry;
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(cq->pop(entry));
        ASSERT_EQ(entry.vi, i);
    }
    EXPECT_FALSE(cq->pop(entry));
}

TEST_F(Cq, AnEntryGivenBackIsTheNextAgain) {
    const auto [cq, cq_handle] = create_cq(2);
    for (std::uint64_t i = 1; i <= 16; ++i) {
        cq->reserve();
        cq->push(i, false);
    }
    CompletionEntry first, second;
    ASSERT_TRUE(cq->pop(first));
    ASSERT_TRUE(cq->pop(second));
    // Meanwhile others have used the room.
    for (std::uint64_t i = 17; i <= 18; ++i) {
        cq->reserve();
        cq->push(i, false);
    }
    EXPECT_TRUE(cq->give_back(second));
    EXPECT_TRUE(cq->give_back(first));
    CompletionEntry entry;
    for (std::uint64_t i = 1; i <= 18; ++i) {
        ASSERT_TRUE(cq->pop(entry));
        ASSERT_EQ(entry.vi, i);
    }
    EXPECT_FALSE(cq->pop(entry));
}

TEST_F(Cq, ForgetsTheEntriesOfOneVi) {
    const auto [cq, cq_handle] = create_cq(2);
    for (std::uint64_t i = 0; i < 100; ++i) {
        cq->reserve();
        cq->push(i % 3, i % 2 == 0);
    }
    cq->forget(1);
    CompletionEntry entry;
    for (std::uint64_t i = 0; i < 100; ++i) {
        if (i % 3 == 1) continue;
        ASSERT_TRUE(cq->pop(entry));
        ASSERT_EQ(entry.vi, i % 3);
        ASSERT_EQ(entry.receive, i % 2 == 0);
    }
    EXPECT_FALSE(cq->pop(entry));
    cq->forget(1);
    EXPECT_FALSE(cq->pop(entry));
}

/// Against a deque, whatever happens in whatever order.
TEST_F(Cq, BehavesAsADeque) {
    for (std::uint64_t seed = 1; seed <= repeated(100); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        auto made = nic->create_cq(random.between(1, 40));
        ASSERT_TRUE(made);
        auto* cq = ua::cq_table().find(reinterpret_cast<void*>(made.value()));
        std::deque<std::uint64_t> model;
        std::uint32_t reserved = 0;
        std::uint64_t next = 0;
        for (int step = 0; step < 500; ++step) {
            switch (random.below(8)) {
                case 0:
                case 1:
                    cq->reserve();
                    ++reserved;
                    break;
                case 2:
                case 3:
                    if (reserved == 0) break;
                    --reserved;
                    cq->push(next % 5, next % 2 == 0);
                    model.push_back(next++);
                    break;
                case 4:
                case 5: {
                    CompletionEntry entry;
                    ASSERT_EQ(cq->pop(entry), !model.empty());
                    if (model.empty()) break;
                    ASSERT_EQ(entry.vi, model.front() % 5);
                    ASSERT_EQ(entry.receive, model.front() % 2 == 0);
                    if (random.one_in(4))
                        EXPECT_TRUE(cq->give_back(entry));
                    else
                        model.pop_front();
                    break;
                }
                case 6:
                    cq->resize(random.between(1, random.one_in(3) ? 1000 : 20));
                    break;
                case 7:
                    if (!random.one_in(10)) break;
                    cq->forget(3);
                    std::erase_if(model, [](std::uint64_t n) { return n % 5 == 3; });
                    break;
            }
        }
        CompletionEntry entry;
        for (const std::uint64_t n : model) {
            ASSERT_TRUE(cq->pop(entry));
            ASSERT_EQ(entry.vi, n % 5);
        }
        EXPECT_FALSE(cq->pop(entry));
        ASSERT_TRUE(nic->destroy_cq(*cq, made.value()));
    }
}

TEST_F(Cq, IsDestroyedOnceAndNotWhileVisAreAttached) {
    const auto [cq, cq_handle] = create_cq();
    const std::uint64_t one = create(na::unreliable, cq, nullptr);
    const std::uint64_t two = create(na::unreliable, cq, cq);
    EXPECT_EQ(nic->destroy_cq(*cq, cq_handle).error().code, Code::OutOfResources);
    ASSERT_TRUE(nic->destroy_vi(vi_of(two), two));
    EXPECT_EQ(nic->destroy_cq(*cq, cq_handle).error().code, Code::OutOfResources);
    ASSERT_TRUE(nic->destroy_vi(vi_of(one), one));
    EXPECT_TRUE(nic->destroy_cq(*cq, cq_handle));
    EXPECT_EQ(ua::cq_table().find(reinterpret_cast<void*>(cq_handle)), nullptr);
    EXPECT_FALSE(nic->destroy_cq(*cq, cq_handle)) << "it is gone already";
    // A place given back twice would be given out twice.
    const auto [first, first_handle] = create_cq();
    const auto [second, second_handle] = create_cq();
    EXPECT_NE(first, second);
}

TEST_F(Cq, IsEmptyWhenItsPlaceIsUsedAgain) {
    const auto [cq, cq_handle] = create_cq();
    cq->reserve();
    cq->push(7, true);
    ASSERT_TRUE(nic->destroy_cq(*cq, cq_handle));
    const auto [again, again_handle] = create_cq();
    ASSERT_EQ(again, cq) << "this test needs the same place";
    CompletionEntry entry;
    EXPECT_FALSE(again->pop(entry));
}

TEST_F(Cq, ThreadsPushAndPop) {
    const auto [made, cq_handle] = create_cq(4);
    ua::CompletionQueue* cq = made;
    const base::Deadline deadline = far();
    constexpr std::uint64_t each = repeated(20000);
    std::atomic<std::uint64_t> popped{0};
    std::atomic<std::uint64_t> sum{0};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 2; ++t)
        threads.emplace_back([&] {
            for (std::uint64_t i = 1; i <= each; ++i) {
                cq->reserve();
                cq->push(i, false);
            }
        });
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&] {
            CompletionEntry entry;
            while (popped < 2 * each && !deadline.expired()) {
                if (!cq->pop(entry)) {
                    sched_yield();
                    continue;
                }
                ++popped;
                sum += entry.vi;
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(popped, 2 * each);
    EXPECT_EQ(sum, each * (each + 1));
}

// ---- With VIs --------------------------------------------------------------------------------

class CqVi : public ScriptedVi {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        const auto made = create_cq();
        cq = made.first;
        open(na::reliable_delivery, cq, cq);
        connect();
    }
    void expect_entry(bool is_receive) {
        CompletionEntry entry;
        ASSERT_TRUE(cq->poll(entry));
        EXPECT_EQ(entry.vi, handle);
        EXPECT_EQ(entry.receive, is_receive);
    }
    void expect_no_entry() {
        CompletionEntry entry;
        EXPECT_FALSE(cq->poll(entry));
    }
    ua::CompletionQueue* cq = nullptr;
};

TEST_F(CqVi, EveryCompletionGivesOneEntry) {
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    ASSERT_EQ(receive(message(1)), PostOutcome::Success);
    ASSERT_EQ(receive(message(2)), PostOutcome::Success);
    expect_no_entry();
    endpoint->complete_receive(0, 8);
    expect_entry(true);
    expect_no_entry();
    // The descriptor is DONE by the time the entry shows, and is taken with Done.
    EXPECT_NE(memory->descriptors[1].head.CS.Status & VIP_STATUS_DONE, 0U);
    EXPECT_EQ(receive_done().descriptor, &memory->descriptors[1].head);
    endpoint->complete_send(0, 8);
    endpoint->complete_receive(0, 8);
    expect_entry(false);
    expect_entry(true);
    expect_no_entry();
    EXPECT_EQ(send_done().outcome, DoneOutcome::Success);
    EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
}

TEST_F(CqVi, EveryFlushedDescriptorGivesOneEntry) {
    for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(send(message(i)), PostOutcome::Success);
        ASSERT_EQ(receive(message(10 + i)), PostOutcome::Success);
    }
    endpoint->report(na::EndpointEvent::PeerDied);
    int sends = 0;
    int receives = 0;
    CompletionEntry entry;
    while (cq->poll(entry)) {
        EXPECT_EQ(entry.vi, handle);
        (entry.receive ? receives : sends)++;
        EXPECT_EQ(done(entry.receive ? Queue::Receive : Queue::Send).errors(),
                  VIP_STATUS_DESC_FLUSHED_ERROR);
    }
    EXPECT_EQ(sends, 3);
    EXPECT_EQ(receives, 3);
}

TEST_F(CqVi, FaultsAtPostGiveAnEntryToo) {
    ASSERT_TRUE(vi->disconnect(handle));
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    expect_entry(false);
    EXPECT_EQ(send_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
}

TEST_F(CqVi, EntriesVanishWithTheirVi) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    endpoint->complete_receive(0, 8);
    EXPECT_EQ(receive_done().outcome, DoneOutcome::Success) << "without asking the queue";
    ASSERT_TRUE(vi->disconnect(handle));
    ASSERT_TRUE(nic->destroy_vi(*vi, handle));
    expect_no_entry();
}

TEST_F(CqVi, ServesManyVisInOrderOfCompletion) {
    std::vector<std::uint64_t> handles;
    std::vector<ScriptedEndpoint*> endpoints;
    for (int i = 0; i < 20; ++i) {
        handles.push_back(create(na::unreliable, nullptr, cq));
        endpoints.push_back(&device().newest());
        ASSERT_TRUE(vi_of(handles.back()).connect_request(handles.back(), {}, {}, far()));
        ASSERT_EQ(vi_of(handles.back()).post_receive(handles.back(), message(1), memory_handle),
                  PostOutcome::Success);
    }
    Random random(1);
    std::vector<std::size_t> order(20);
    for (std::size_t i = 0; i < 20; ++i)
        order[i] = i;
    for (std::size_t i = 20; i > 1; --i)
        std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
    for (const std::size_t i : order) {
        endpoints[i]->complete_receive(0, 8);
        CompletionEntry entry;
        ASSERT_TRUE(cq->poll(entry));
        EXPECT_EQ(entry.vi, handles[i]);
    }
}

TEST_F(CqVi, SendsAndReceivesMayHaveTheirOwn) {
    const auto [other, other_handle] = create_cq();
    const std::uint64_t both = create(na::unreliable, cq, other);
    ScriptedEndpoint& behind = device().newest();
    ua::VirtualInterface& two = vi_of(both);
    EXPECT_TRUE(two.has_completion_queue(Queue::Send));
    ASSERT_TRUE(two.connect_request(both, {}, {}, far()));
    ASSERT_EQ(two.post_send(both, message(0), memory_handle), PostOutcome::Success);
    ASSERT_EQ(two.post_receive(both, message(1), memory_handle), PostOutcome::Success);
    behind.complete_send(0, 8);
    behind.complete_receive(0, 8);
    // Either of them finds what has arrived.
    CompletionEntry entry;
    ASSERT_TRUE(cq->poll(entry));
    EXPECT_FALSE(entry.receive);
    ASSERT_TRUE(other->poll(entry));
    EXPECT_TRUE(entry.receive);
    EXPECT_FALSE(cq->poll(entry));
    EXPECT_FALSE(other->poll(entry));
    const std::uint64_t none = create(na::unreliable, nullptr, nullptr);
    EXPECT_FALSE(vi_of(none).has_completion_queue(Queue::Send));
    EXPECT_FALSE(vi_of(none).has_completion_queue(Queue::Receive));
}

TEST_F(CqVi, ASleeperIsWokenByArrivalsAndByOtherThreads) {
    const base::Deadline deadline = far();
    const auto wait = [&] {
        CompletionEntry entry;
        return ua::wait_until(
            nic->process().doorbell(), 0, deadline, [&] { return cq->poll(entry); },
            [&] { cq->group()->arm(na::Wakes::Sleeper); }, [] { return false; });
    };
    for (std::uint32_t round = 0; round < repeated(200); ++round) {
        ASSERT_EQ(receive(message(0)), PostOutcome::Success);
        std::thread other([&] {
            while (endpoint->armed() != na::Wakes::Sleeper && !deadline.expired())
                sched_yield();
            endpoint->complete_receive(0, 8);
            if (round % 2 == 0) {
                // Another thread of the program finds it first.
                endpoint->arm(na::Wakes::Nobody);
                [[maybe_unused]] const bool more = vi->progress();
            }
        });
        EXPECT_TRUE(wait());
        other.join();
        EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
        ASSERT_FALSE(deadline.expired());
    }
}

}  // namespace
