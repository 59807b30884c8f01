// SPDX-License-Identifier: BSD-3-Clause
// Sleeping until something comes: blocking reads, file descriptors, wait sets, poll sets.
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include <array>
#include <atomic>
#include <thread>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

Wish sleeping(fi_wait_obj kind) {
    Wish wish;
    wish.wait = kind;
    return wish;
}

std::int64_t cpu_microseconds() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1'000'000 + used.tv_nsec / 1000;
}

/// A message from a to b, from another thread that waits until it is told to.
class LateSender {
  public:
    explicit LateSender(Pair& pair)
        : thread_([this, &pair] {
              go_.wait(false);
              until_taken(
                  pair.a, nullptr, [&] { return fi_inject(pair.a.ep.get(), "late", 5, 0); },
                  "fi_inject");
              // The message may need this end until it has left.
              const auto deadline = via::base::Deadline::after_milliseconds(20'000);
              while (!arrived_.load() && !deadline.expired())
                  pair.a.progress();
          }) {}
    ~LateSender() {
        go();
        arrived_.store(true);
        thread_.join();
    }
    void go() {
        go_.store(true);
        go_.notify_all();
    }

  private:
    std::atomic<bool> go_{false};
    std::atomic<bool> arrived_{false};
    std::thread thread_;
};

int wait_fd(fid_cq* cq) {
    int fd = -1;
    check(fi_control(&cq->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
    return fd;
}

/// The connection is made, so that what is measured is only the waiting.
void warm_up(Pair& pair) {
    char got[8];
    check(fi_recv(pair.b.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), "warm", 5, 0); }, "fi_inject");
    (void)pair.b.next_good(&pair.a);
}

class Blocking : public testing::TestWithParam<fi_wait_obj> {};

}  // namespace

TEST_P(Blocking, AReadSleepsUntilAMessageComes) {
    Pair pair(sleeping(GetParam()));
    warm_up(pair);
    std::array<char, 8> got{};
    check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got),
          "fi_recv");
    LateSender sender(pair);
    sender.go();
    fi_cq_tagged_entry entry{};
    ASSERT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 20'000), 1);
    EXPECT_EQ(entry.op_context, &got);
}

TEST_P(Blocking, AReadInVainEndsAtItsTime) {
    Pair pair(sleeping(GetParam()));
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 20), -FI_EAGAIN);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Blocking,
                         testing::Values(FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                         FI_WAIT_YIELD));

TEST(Wait, ABlockedReadUsesNoProcessor) {
    Pair pair;
    warm_up(pair);
    fi_cq_tagged_entry entry{};
    const std::int64_t before = cpu_microseconds();
    EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 500), -FI_EAGAIN);
    EXPECT_LT(cpu_microseconds() - before, 100'000) << "it polled instead of sleeping";
}

TEST(Wait, ASignalEndsABlockedRead) {
    Pair pair;
    std::thread other([&] { check(fi_cq_signal(pair.b.cq.get()), "fi_cq_signal"); });
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 20'000), -FI_EAGAIN);
    other.join();
}

TEST(Wait, ThereIsAFileDescriptorToPoll) {
    Pair pair(sleeping(FI_WAIT_FD));
    warm_up(pair);
    const int fd = wait_fd(pair.b.cq.get());
    ASSERT_GE(fd, 0);
    for (int round = 0; round < 20; ++round) {
        std::array<char, 8> got{};
        check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got),
              "fi_recv");
        LateSender sender(pair);
        fid* waits = &pair.b.cq->fid;
        const auto deadline = via::base::Deadline::after_milliseconds(20'000);
        Event event;
        sender.go();
        while (!pair.b.poll(event)) {
            ASSERT_FALSE(deadline.expired()) << "round " << round;
            if (fi_trywait(pair.b.fabric.get(), &waits, 1) != 0) continue;
            pollfd one{fd, POLLIN, 0};
            ASSERT_EQ(::poll(&one, 1, 20'000), 1) << "slept through a message, round " << round;
        }
        EXPECT_EQ(event.entry.op_context, &got);
    }
}

TEST(Wait, WhatIsThereIsNotSleptThrough) {
    Pair pair(sleeping(FI_WAIT_FD));
    warm_up(pair);
    std::array<char, 8> got{};
    check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got),
          "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), "here", 5, 0); }, "fi_inject");
    fid* waits = &pair.b.cq->fid;
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    while (fi_trywait(pair.b.fabric.get(), &waits, 1) == 0 && !deadline.expired())
        pair.a.progress();
    EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &waits, 1), -FI_EAGAIN);
    (void)pair.b.next_good();
}

TEST(Wait, AConditionIsSignalled) {
    Pair pair(sleeping(FI_WAIT_MUTEX_COND));
    warm_up(pair);
    fi_mutex_cond object{};
    check(fi_control(&pair.b.cq->fid, FI_GETWAIT, &object), "FI_GETWAIT");
    std::array<char, 8> got{};
    check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got),
          "fi_recv");
    LateSender sender(pair);
    fid* waits = &pair.b.cq->fid;
    Event event;
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    pthread_mutex_lock(object.mutex);
    while (!pair.b.poll(event) && !deadline.expired()) {
        if (fi_trywait(pair.b.fabric.get(), &waits, 1) != 0) continue;
        sender.go();
        timespec until{};
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 20;
        EXPECT_EQ(pthread_cond_timedwait(object.cond, object.mutex, &until), 0);
    }
    pthread_mutex_unlock(object.mutex);
    EXPECT_EQ(event.entry.op_context, &got);
}

TEST(Wait, AWaitSetWakesForItsQueue) {
    Node a;
    Wish wish;
    Node b(wish, Node::NoEndpoint{});
    fi_wait_attr wait_attributes{};
    wait_attributes.wait_obj = FI_WAIT_UNSPEC;
    fid_wait* opened = nullptr;
    check(fi_wait_open(b.fabric.get(), &wait_attributes, &opened), "fi_wait_open");
    const Open<fid_wait> set(opened);
    fi_cq_attr attributes{};
    attributes.format = FI_CQ_FORMAT_TAGGED;
    attributes.wait_obj = FI_WAIT_SET;
    attributes.wait_set = set.get();
    fid_cq* queue = nullptr;
    check(fi_cq_open(b.domain.get(), &attributes, &queue, nullptr), "fi_cq_open");
    b.cq.reset(queue);
    b.open_endpoint();
    check(fi_ep_bind(b.ep.get(), &queue->fid, FI_TRANSMIT | FI_RECV), "bind");
    check(fi_ep_bind(b.ep.get(), &b.av->fid, 0), "bind");
    check(fi_enable(b.ep.get()), "fi_enable");
    a.insert(b);
    EXPECT_EQ(fi_wait(set.get(), 10), -FI_ETIMEDOUT);
    std::array<char, 8> got{};
    check(fi_recv(b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got), "fi_recv");
    until_taken(
        a, nullptr, [&] { return fi_inject(a.ep.get(), "set", 4, 0); }, "fi_inject");
    std::atomic<bool> arrived{false};
    std::thread helper([&] {
        while (!arrived.load())
            a.progress();
    });
    EXPECT_EQ(fi_wait(set.get(), 20'000), 0);
    arrived.store(true);
    helper.join();
    EXPECT_EQ(b.next_good(&a).op_context, &got);
    EXPECT_EQ(fi_close(&set->fid), -FI_EBUSY);
    b.ep.reset();
    b.cq.reset();
}

TEST(Wait, APollSetTellsWhoHasSomething) {
    Pair pair;
    int queue_context = 0;
    fi_poll_attr attributes{};
    fid_poll* opened = nullptr;
    check(fi_poll_open(pair.b.domain.get(), &attributes, &opened), "fi_poll_open");
    const Open<fid_poll> set(opened);
    pair.b.cq->fid.context = &queue_context;
    check(fi_poll_add(set.get(), &pair.b.cq->fid, 0), "fi_poll_add");
    void* contexts[4];
    EXPECT_EQ(fi_poll(set.get(), contexts, 4), 0);
    std::array<char, 8> got{};
    check(fi_recv(pair.b.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, &got),
          "fi_recv");
    until_taken(
        pair.a, &pair.b, [&] { return fi_inject(pair.a.ep.get(), "poll", 5, 0); }, "fi_inject");
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    int found = 0;
    while ((found = fi_poll(set.get(), contexts, 4)) == 0 && !deadline.expired())
        pair.a.progress();
    ASSERT_EQ(found, 1);
    EXPECT_EQ(contexts[0], &queue_context);
    (void)pair.b.next_good();
    check(fi_poll_del(set.get(), &pair.b.cq->fid, 0), "fi_poll_del");
}
