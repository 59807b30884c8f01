// SPDX-License-Identifier: BSD-3-Clause
// Poll groups, the service thread's round, and the end of a peer's process.
#include <signal.h>
#include <sys/syscall.h>

#include <thread>

#include "na/shm/child_process.hpp"
#include "na/shm/shm_pair.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;
using na::Wakes;

namespace {

/// Polls of a group after which an endpoint without arrivals is left to ring.
constexpr int long_silence = 3 * 4096;

struct Connection {
    Connection(TestProcess& left, TestProcess& right, na::EndpointGroups groups)
        : sender(left, na::reliable_delivery), receiver(right, na::reliable_delivery, groups) {
        EXPECT_TRUE(connect(sender, receiver));
    }
    TestVi sender;
    TestVi receiver;
};

class ShmGroup : public testing::Test {
  protected:
    void make(std::size_t count) {
        while (connections.size() < count)
            connections.push_back(std::make_unique<Connection>(
                left, right, na::EndpointGroups{group.get(), group.get()}));
    }
    void poll(int times) {
        for (int i = 0; i < times; ++i)
            group->poll();
    }
    void send(Connection& connection) {
        connection.receiver.post_receive({target.pd()});
        connection.sender.post_send({source.pd()});
    }
    std::uint64_t service_rings() {
        std::uint64_t count = 0;
        return ::read(right.doorbell.event(), &count, sizeof count) > 0 ? count : 0;
    }

    TestHost host;
    TestProcess left{host};
    TestProcess right{host};
    TestMemory source{left, 8};
    TestMemory target{right, 8};
    std::unique_ptr<na::PollGroup> group = right.nic->create_poll_group();
    std::vector<std::unique_ptr<Connection>> connections;
};

TEST_F(ShmGroup, FindsArrivalsOfAllItsEndpoints) {
    make(20);
    poll(1);
    for (int round = 0; round < 3; ++round)
        for (auto& connection : connections) {
            send(*connection);
            EXPECT_TRUE(group->poll());
            EXPECT_TRUE(connection->receiver.receive_done());
            EXPECT_FALSE(group->poll());
        }
}

TEST_F(ShmGroup, PollsOnlyWhoIsNotSilent) {
    make(100);
    Connection& busy = *connections[50];
    for (int i = 0; i < long_silence; ++i) {
        if (i % 16 == 0) send(busy);
        group->poll();
        while (busy.receiver.receive_done() || busy.sender.send_done()) {
        }
    }
    std::vector<std::uint64_t> before;
    for (auto& connection : connections)
        before.push_back(connection->receiver.progressed);
    for (int i = 0; i < 4096; ++i) {
        if (i % 16 == 0) send(busy);
        group->poll();
        while (busy.receiver.receive_done() || busy.sender.send_done()) {
        }
    }
    for (std::size_t i = 0; i < connections.size(); ++i) {
        const std::uint64_t calls = connections[i]->receiver.progressed - before[i];
        if (i == 50)
            EXPECT_GE(calls, 256U);
        else
            EXPECT_EQ(calls, 0U) << i;
    }
}

TEST_F(ShmGroup, FindsArrivalsOfSilentEndpointsAtTheNextPoll) {
    make(40);
    poll(long_silence);
    for (int round = 0; round < 3; ++round) {
        for (auto& connection : connections) {
            send(*connection);
            group->poll();
            EXPECT_TRUE(connection->receiver.receive_done());
        }
        poll(long_silence);
    }
}

TEST_F(ShmGroup, FindsTheEndOfSilentEndpoints) {
    make(10);
    poll(long_silence);
    connections[7]->sender.disconnect();
    poll(200);
    EXPECT_EQ(connections[7]->receiver.take_events(), event_bits(EndpointEvent::PeerDisconnected));
    for (auto& connection : connections)
        EXPECT_EQ(connection->receiver.take_events(), 0U);
}

/// Sends of one endpoint that wait for room: nothing arrives that could tell of it.
TEST_F(ShmGroup, DoesNotForgetSendsThatWaitForRoom) {
    constexpr int messages = 1000;
    for (const bool silent_before : {false, true}) {
        SCOPED_TRACE(silent_before ? "posted in silence" : "posted before the silence");
        make(connections.size() + 3);
        Connection& stalled = *connections.back();
        const TestMemory long_source(right, 1000);
        const TestMemory long_target(left, 1000);
        if (silent_before) poll(long_silence);
        for (int i = 0; i < messages; ++i) {
            stalled.sender.post_receive({long_target.pd()});
            stalled.receiver.post_send({long_source.pd()});
        }
        if (!silent_before) poll(long_silence);
        int received = 0;
        for (int i = 0; i < 1000 * messages && received < messages; ++i) {
            group->poll();
            stalled.sender.poll();
            while (stalled.sender.receive_done())
                ++received;
        }
        EXPECT_EQ(received, messages);
    }
}

TEST_F(ShmGroup, SendsThatWaitForRoomGoOnBesideABusyEndpoint) {
    constexpr int messages = 1000;
    make(2);
    Connection& busy = *connections[0];
    Connection& stalled = *connections[1];
    const TestMemory long_source(right, 1000);
    const TestMemory long_target(left, 1000);
    for (int i = 0; i < messages; ++i) {
        stalled.sender.post_receive({long_target.pd()});
        stalled.receiver.post_send({long_source.pd()});
    }
    int received = 0;
    for (int i = 0; i < 1000 * messages && received < messages; ++i) {
        send(busy);
        EXPECT_TRUE(group->poll());
        while (busy.receiver.receive_done() || busy.sender.send_done()) {
        }
        stalled.sender.poll();
        while (stalled.sender.receive_done())
            ++received;
    }
    EXPECT_EQ(received, messages);
}

TEST_F(ShmGroup, AnyArrivalWakesASleeper) {
    make(10);
    for (const bool silent : {false, true}) {
        if (silent) poll(long_silence);
        for (auto& connection : connections) {
            const std::uint32_t ticket = right.doorbell.enter();
            group->arm(Wakes::Sleeper);
            poll(1);
            send(*connection);
            // Returns at once, or the test's own deadline ends it.
            right.doorbell.sleep(ticket, base::Deadline::after_milliseconds(60000));
            right.doorbell.leave();
            EXPECT_NE(right.doorbell.page().epoch.load(), ticket);
            poll(1);
            EXPECT_TRUE(connection->receiver.receive_done());
        }
    }
}

// The Notify calls rely on it: nobody polls then but the service thread itself, now and then.
TEST_F(ShmGroup, AnyArrivalWakesTheServiceThreadIfAsked) {
    make(10);
    for (const int polls_before : {1, long_silence})
        for (const int polls_after : {1, long_silence}) {
            poll(polls_before);
            group->arm(Wakes::Service);
            poll(polls_after);
            for (auto& connection : connections) {
                service_rings();
                send(*connection);
                EXPECT_GT(service_rings(), 0U) << polls_before << " " << polls_after;
                poll(1);
                EXPECT_TRUE(connection->receiver.receive_done());
            }
        }
}

TEST_F(ShmGroup, SeesWhatTheServiceThreadCollected) {
    make(10);
    poll(long_silence);
    send(*connections[3]);
    [[maybe_unused]] const bool unfinished = right.nic->service();
    EXPECT_TRUE(connections[3]->receiver.receive_done()) << "the service thread is a NIC, too";
    send(*connections[3]);
    poll(1);
    EXPECT_TRUE(connections[3]->receiver.receive_done());
}

// A program that leaves everything to the service thread never polls the group.
TEST_F(ShmGroup, RingsThatNobodyPollsForDoNotPileUp) {
    make(2);
    poll(1);
    for (int i = 0; i < 500; ++i) {
        connections[0]->sender.endpoint->nudge();
        [[maybe_unused]] const bool unfinished = right.nic->service();
    }
    const std::uint64_t before = connections[0]->receiver.progressed;
    poll(1);
    EXPECT_LE(connections[0]->receiver.progressed - before, 2U);
    send(*connections[0]);
    poll(1);
    EXPECT_TRUE(connections[0]->receiver.receive_done());
}

TEST_F(ShmGroup, BothGroupsOfAnEndpointLookAfterIt) {
    const auto send_group = right.nic->create_poll_group();
    Connection connection(left, right, {send_group.get(), group.get()});
    for (na::PollGroup* one : {send_group.get(), group.get()}) {
        for (int i = 0; i < long_silence; ++i)
            one->poll();
        send(connection);
        one->poll();
        EXPECT_TRUE(connection.receiver.receive_done());
    }
}

TEST_F(ShmGroup, EndpointsShareMarksBeyondThePagesSize) {
    // Only the owner's table matters: these are never connected.
    std::vector<std::unique_ptr<TestVi>> others;
    while (others.size() < na::doorbell_endpoints + 3)
        others.push_back(std::make_unique<TestVi>(right, na::unreliable));
    make(2);
    poll(long_silence);
    for (auto& connection : connections) {
        send(*connection);
        poll(1);
        EXPECT_TRUE(connection->receiver.receive_done());
    }
}

TEST_F(ShmGroup, EndpointsMayGoWhileOthersRingForThem) {
    make(2);
    const auto deadline = base::Deadline::after_milliseconds(60000);
    std::atomic<bool> stop{false};
    // Peers that ring for whatever index, as they may.
    std::thread ringer([&] {
        Random random(1);
        while (!stop && !deadline.expired())
            na::ring_doorbell(right.doorbell.page(), right.doorbell.event(), random.below(8),
                              Wakes::Sleeper);
    });
    std::thread service([&] {
        while (!stop && !deadline.expired())
            [[maybe_unused]] const bool unfinished = right.nic->service();
    });
    std::thread program([&] {
        while (!stop && !deadline.expired())
            group->poll();
    });
    for (int i = 0; i < static_cast<int>(repeated(500)) && !deadline.expired(); ++i) {
        const TestVi passing(right, na::unreliable, {group.get(), group.get()});
        sched_yield();
    }
    stop = true;
    ringer.join();
    service.join();
    program.join();
}

TEST_F(ShmGroup, ManyThreadsMayPollIt) {
    make(8);
    const auto deadline = base::Deadline::after_milliseconds(60000);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            while (!stop && !deadline.expired()) {
                group->poll();
                group->arm(Wakes::Nobody);
                sched_yield();
            }
        });
    for (int round = 0; round < static_cast<int>(repeated(300)); ++round)
        for (auto& connection : connections) {
            send(*connection);
            bool arrived = false;
            while (!arrived && !deadline.expired()) {
                arrived = connection->receiver.receive_done().has_value();
                sched_yield();
            }
            ASSERT_TRUE(arrived) << round;
            while (connection->sender.send_done()) {
            }
        }
    stop = true;
    for (std::thread& thread : threads)
        thread.join();
}

// ---- The service thread's round ---------------------------------------------------------------

TEST(ShmService, FinishesWhatNeedsFurtherCalls) {
    TestHost host;
    TestProcess left(host), right(host);
    TestVi sender(left, na::reliable_reception), receiver(right, na::reliable_reception);
    ASSERT_TRUE(connect(sender, receiver));
    const TestMemory source(left, 300000), target(right, 300000);
    receiver.post_receive({target.pd()});
    sender.post_send({source.pd()});
    // Nobody but the two service threads moves anything.
    bool unfinished = true;
    for (int i = 0; i < 10000 && unfinished; ++i) {
        unfinished = left.nic->service();
        unfinished = right.nic->service() || unfinished;
    }
    EXPECT_FALSE(unfinished);
    EXPECT_TRUE(receiver.receive_done());
    EXPECT_TRUE(sender.send_done());
}

TEST(ShmService, TellsTheOwnerWhatTheAgentKnows) {
    TestHost host;
    TestProcess left(host), right(host);
    TestVi one(left, na::reliable_delivery), other(right, na::reliable_delivery);
    TestVi three(left, na::reliable_delivery), four(right, na::reliable_delivery);
    ASSERT_TRUE(connect(one, other));
    ASSERT_TRUE(connect(three, four));
    left.nic->connection_lost(999);
    EXPECT_EQ(one.take_events() | three.take_events(), 0U);
    left.nic->connection_lost(2);
    EXPECT_EQ(one.take_events(), 0U);
    EXPECT_NE(three.take_events() & (event_bits(EndpointEvent::PeerDied) |
                                     event_bits(EndpointEvent::PeerDisconnected)),
              0U);
}

TEST(ShmService, SeesAPeersProcessDie) {
    ChildProcess victim([] {
        for (;;)
            pause();
        return 0;
    });
    TestHost host;
    TestProcess left(host), right(host);
    // The right side stands for the child; what it wrote before it died still arrives.
    right.client.pid = victim.pid();
    right.client.pidfd = base::UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, victim.pid(), 0)));
    TestVi survivor(left, na::reliable_delivery), dead(right, na::reliable_delivery);
    TestVi survivor_too(left, na::unreliable), dead_too(right, na::unreliable);
    ASSERT_TRUE(connect(survivor, dead));
    ASSERT_TRUE(connect(dead_too, survivor_too));
    EXPECT_EQ(survivor.endpoint->peer_pid(), victim.pid());
    const TestMemory source(right, 100), target(left, 100);
    for (int i = 0; i < 3; ++i) {
        survivor.post_receive({target.pd()});
        dead.post_send({source.pd(0, 50)});
    }
    kill(victim.pid(), SIGKILL);
    const auto deadline = base::Deadline::after_milliseconds(60000);
    std::uint32_t seen = 0, seen_too = 0;
    while ((seen == 0 || seen_too == 0) && !deadline.expired()) {
        seen |= survivor.take_events();
        seen_too |= survivor_too.take_events();
        sched_yield();
    }
    EXPECT_EQ(seen, event_bits(EndpointEvent::PeerDied));
    EXPECT_EQ(seen_too, event_bits(EndpointEvent::PeerDied));
    for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(survivor.receive_done()) << i;
}

}  // namespace
