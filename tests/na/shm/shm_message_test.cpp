// SPDX-License-Identifier: BSD-3-Clause
// Messages on all paths between two shm endpoints that the test drives step by step.
#include <algorithm>
#include <deque>

#include "na/shm/shm_pair.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;

namespace {

class ShmMessage : public ShmPair {};

/// The longest message that goes in a frame.
constexpr std::uint32_t in_frame = na::shm::max_inline_bytes;

const std::uint32_t sizes[] = {0,     1,     3,     7,     8,     9,      16,     22,   23,
                               24,    37,    38,    39,    52,    53,     54,     55,   56,
                               57,    63,    64,    65,    100,   511,    512,    513,  1023,
                               2047,  2048,  2049,  4095,  4096,  5000,   8192,   9999, 12345,
                               14000, 16383, 16384, 16385, 65536, 300001, 1048576};

TEST_P(ShmMessage, OfEverySizeArrivesOnItsPath) {
    for (const auto kind : {TestMemory::Kind::Heap, TestMemory::Kind::Kmem}) {
        const TestMemory source(left, 1 << 20, kind);
        const TestMemory target(right, 1 << 20, TestMemory::Kind::Heap);
        // Lets the peer map the arena, so that every later message can take the short way.
        transfer(a, b, {source.pd()}, {target.pd()}, 1);
        for (const std::uint32_t bytes : sizes) {
            SCOPED_TRACE(std::to_string(bytes) +
                         (kind == TestMemory::Kind::Heap ? " bytes of heap" : " bytes of kmem"));
            const auto path = static_cast<std::size_t>(expected_path(bytes, kind));
            const std::uint64_t before = b.counters.received_messages[path].get();
            Pieces from, to;
            if (bytes != 0) from = {source.pd(0, bytes)};
            if (bytes != 0) to = {target.pd(0, bytes)};
            transfer(a, b, from, to, bytes + 5);
            EXPECT_EQ(b.counters.received_messages[path].get(), before + 1)
                << "expected path " << path;
            if (HasFatalFailure()) return;
        }
    }
}

TEST_P(ShmMessage, GoesInBothDirections) {
    const TestMemory at_left(left, 70000);
    const TestMemory at_right(right, 70000);
    for (const std::uint32_t bytes : {8U, in_frame, 3000U, 70000U}) {
        transfer(a, b, {at_left.pd(0, bytes)}, {at_right.pd(0, bytes)}, bytes);
        transfer(b, a, {at_right.pd(0, bytes)}, {at_left.pd(0, bytes)}, bytes + 1);
    }
}

TEST_P(ShmMessage, CarriesImmediateDataOnEveryPath) {
    const TestMemory source(left, 70000, TestMemory::Kind::Kmem);
    const TestMemory target(right, 70000);
    for (const std::uint32_t value : {0U, 1U, 0xFFFFFFFFU})
        for (const std::uint32_t bytes : {0U, 8U, in_frame, 3000U, 70000U}) {
            Pieces from, to;
            if (bytes != 0) from = {source.pd(0, bytes)};
            if (bytes != 0) to = {target.pd(0, bytes)};
            transfer(a, b, from, to, bytes + value, {.immediate = value});
        }
}

TEST_P(ShmMessage, IsGatheredAndScatteredAsTheSegmentsSay) {
    for (std::uint64_t seed = 1; seed <= repeated(120); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const std::uint32_t bytes = random.one_in(3)   ? random.between(1, in_frame)
                                    : random.one_in(2) ? random.between(in_frame + 1, 9000)
                                                       : random.between(9000, 100000);
        const auto kind = random.one_in(2) ? TestMemory::Kind::Heap : TestMemory::Kind::Kmem;
        const TestMemory source(left, bytes + 2000, kind);
        const TestMemory target(right, bytes + 2000);
        const std::uint32_t most = std::min(bytes, random.one_in(10) ? 251U : 12U);
        const Pieces from = cut(source, bytes, random.between(1, most), random);
        const Pieces to = cut(target, bytes, random.between(1, most), random);
        transfer(a, b, from, to, seed);
        if (HasFatalFailure()) return;
    }
}

TEST_P(ShmMessage, ShorterThanTheReceiveLeavesTheRestAlone) {
    const TestMemory source(left, 40000);
    const TestMemory target(right, 50000);
    for (const std::uint32_t bytes : {0U, 5U, in_frame, 1000U, 20000U, 40000U}) {
        fill_pattern(target.span(), 77);
        fill_pattern(source.span(), bytes);
        b.post_receive({target.pd()});
        a.post_send(bytes == 0 ? Pieces{} : Pieces{source.pd(0, bytes)});
        ASSERT_TRUE(drive(a, b));
        const auto received = b.receive_done();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->length, bytes);
        EXPECT_EQ(received->errors(), 0U);
        EXPECT_EQ(matching_bytes(target.span().first(bytes), bytes), bytes);
        EXPECT_EQ(matching_bytes(target.span().subspan(bytes), 77, bytes), 50000 - bytes);
        ASSERT_TRUE(a.send_done());
    }
}

// A thousand messages are posted before the receiver looks at the channel once.
TEST_P(ShmMessage, WaitsInTheQueueWhileTheChannelIsFull) {
    constexpr std::uint32_t count = 1000;
    const TestMemory source(left, 4096);
    const TestMemory target(right, count * 600);
    Random random(3);
    fill_pattern(source.span(), 9);
    std::vector<std::uint32_t> lengths;
    for (std::uint32_t i = 0; i < count; ++i) {
        lengths.push_back(i % 3 == 0 ? random.between(1, 600) : random.between(1, in_frame));
        b.post_receive({target.pd(i * 600, 600)});
        a.post_send({source.pd(i % 100, lengths.back())}, {.immediate = i});
    }
    EXPECT_TRUE(a.endpoint->unfinished());
    EXPECT_GT(a.counters.send_stalls.get(), 0U);
    ASSERT_TRUE(drive(a, b));
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto received = b.receive_done();
        ASSERT_TRUE(received) << i;
        ASSERT_EQ(received->immediate, i);
        ASSERT_EQ(received->length, lengths[i]);
        ASSERT_EQ(matching_bytes(target.span().subspan(i * 600, lengths[i]), 9, i % 100),
                  lengths[i]);
        const auto sent = a.send_done();
        ASSERT_TRUE(sent) << i;
        ASSERT_EQ(sent->cookie, i);
        ASSERT_EQ(sent->errors(), 0U);
    }
    EXPECT_FALSE(a.endpoint->unfinished());
}

TEST_P(ShmMessage, IsCompleteAtTheSenderWhenItsLevelSaysSo) {
    const TestMemory source(left, 100);
    const TestMemory target(right, 100);
    for (const std::uint32_t bytes : {8U, 100U}) {
        b.post_receive({target.pd()});
        a.post_send({source.pd(0, bytes)});
        // Below reliable reception the buffer is free as soon as the bytes have left it.
        EXPECT_EQ(a.send_done().has_value(), !reception());
        a.poll();
        EXPECT_FALSE(a.send_done().has_value());
        b.poll();
        a.poll();
        EXPECT_EQ(a.send_done().has_value(), reception());
        ASSERT_TRUE(b.receive_done());
    }
}

TEST_P(ShmMessage, ByReferenceIsCompleteOnlyWhenFetched) {
    if (!cma_works()) GTEST_SKIP() << "no single copy from ordinary memory in this run";
    const TestMemory source(left, 1 << 20);
    const TestMemory target(right, 1 << 20);
    b.post_receive({target.pd()});
    a.post_send({source.pd()});
    a.poll();
    EXPECT_FALSE(a.send_done());
    EXPECT_TRUE(a.endpoint->unfinished());
    fill_pattern(source.span(), 4);  // the message is what is there when it is fetched
    b.poll();
    EXPECT_EQ(matching_bytes(target.span(), 4), target.size());
    a.poll();
    ASSERT_TRUE(a.send_done());
    EXPECT_FALSE(a.endpoint->unfinished());
}

// The receiver tells only now and then how far it has come. That must never be too late for a
// message that needs much room.
TEST_P(ShmMessage, ThatIsLongFollowsAnyNumberOfShortOnes) {
    const TestMemory source(left, 40000);
    const TestMemory target(right, 40000);
    // All that one round through the first part of the ring can be, in steps of one line.
    for (std::uint32_t count = 0; count <= 8192 / 64 + 40; ++count) {
        SCOPED_TRACE(std::to_string(count) + " short ones");
        TestVi c(left, GetParam());
        TestVi d(right, GetParam());
        ASSERT_TRUE(connect(c, d));
        for (std::uint32_t i = 0; i < count; ++i) {
            d.post_receive({target.pd()});
            c.post_send({source.pd(0, 60)});
            d.poll();
            c.poll();
            ASSERT_TRUE(d.receive_done());
            ASSERT_TRUE(c.send_done());
        }
        transfer(c, d, {source.pd()}, {target.pd()}, count);
        if (HasFatalFailure()) return;
    }
}

TEST_P(ShmMessage, ThatIsLongIsNotHeldUpByTrafficTheOtherWay) {
    const TestMemory source(left, 40000);
    const TestMemory target(right, 40000);
    const TestMemory out(right, 8);
    const TestMemory in(left, 8);
    for (std::uint32_t count = 30; count < 150; ++count) {
        SCOPED_TRACE(std::to_string(count) + " short ones");
        TestVi c(left, GetParam());
        TestVi d(right, GetParam());
        ASSERT_TRUE(connect(c, d));
        const auto answer = [&] {
            c.post_receive({in.pd()});
            d.post_send({out.pd()});
            c.poll();
            d.poll();
            while (c.receive_done() || c.send_done() || d.send_done()) {
            }
        };
        for (std::uint32_t i = 0; i < count; ++i) {
            d.post_receive({target.pd()});
            c.post_send({source.pd(0, 190)});
            answer();
            ASSERT_TRUE(d.receive_done());
        }
        d.post_receive({target.pd()});
        c.post_send({source.pd()});
        std::optional<Done> received;
        for (int i = 0; i < 1000 && !received; ++i) {
            answer();
            received = d.receive_done();
        }
        ASSERT_TRUE(received);
        EXPECT_EQ(received->length, 40000U);
    }
}

// ---- What goes wrong -----------------------------------------------------------------------

TEST_P(ShmMessage, WithoutAReceiveIsLostAsTheLevelSays) {
    const TestMemory source(left, 40000);
    const TestMemory target(right, 40000);
    for (const std::uint32_t bytes : {8U, 2000U, 40000U}) {
        SCOPED_TRACE(bytes);
        a.post_send({source.pd(0, bytes)});
        ASSERT_TRUE(drive(a, b));
        EXPECT_EQ(b.take_events(), event_bits(EndpointEvent::ReceiveQueueEmpty));
        const auto sent = a.send_done();
        ASSERT_TRUE(sent);
        EXPECT_EQ(sent->errors(), reception() ? na::status_remote_descriptor : 0);
        if (reliable()) {
            // Nothing after it is delivered: the user agent ends the connection.
            b.post_receive({target.pd()});
            a.post_send({source.pd(0, 8)});
            for (int i = 0; i < 1000; ++i) {
                a.poll();
                b.poll();
            }
            EXPECT_FALSE(b.receive_done());
            return;
        }
        transfer(a, b, {source.pd(0, bytes)}, {target.pd(0, bytes)}, bytes);
    }
}

// Whoever sees the event ends the connection; the sender learns of its message before that.
TEST_P(ShmMessage, ThatFailsIsAcknowledgedBeforeTheReceiverCanEnd) {
    if (!reception()) GTEST_SKIP() << "nothing is acknowledged on this level";
    const TestMemory source(left, 3000);
    const TestMemory target(right, 10);
    for (const std::uint32_t bytes : {8U, in_frame, 3000U})
        for (const bool posted : {false, true}) {
            SCOPED_TRACE(std::to_string(bytes) + (posted ? " too long" : " without a receive"));
            if (posted && bytes == 8) continue;
            TestVi c(left, GetParam());
            TestVi d(right, GetParam());
            ASSERT_TRUE(connect(c, d));
            if (posted) d.post_receive({target.pd()});
            c.post_send({source.pd(0, bytes)});
            for (int i = 0; i < 10 && d.queues.events == 0 && !d.receive_done(); ++i)
                d.poll();
            d.disconnect();
            c.poll();
            const auto sent = c.send_done();
            ASSERT_TRUE(sent);
            EXPECT_EQ(sent->errors(), na::status_remote_descriptor);
        }
}

TEST_P(ShmMessage, TooLongForTheReceiveFillsItAndSaysSo) {
    const TestMemory source(left, 40000);
    const TestMemory target(right, 41000);
    const struct {
        std::uint32_t sent, room;
    } cases[] = {{9, 8},       {in_frame, 1},  {in_frame, 0}, {3000, 100},
                 {3000, 2500}, {40000, 39999}, {40000, 1000}, {40000, 0}};
    for (const auto& [sent_bytes, room] : cases) {
        SCOPED_TRACE(std::to_string(sent_bytes) + " into " + std::to_string(room));
        fill_pattern(source.span(), 5);
        fill_pattern(target.span(), 6);
        b.post_receive(room == 0 ? Pieces{} : Pieces{target.pd(100, room)});
        a.post_send({source.pd(0, sent_bytes)});
        ASSERT_TRUE(drive(a, b));
        const auto received = b.receive_done();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->errors(), na::status_length | (room == 0 ? 0 : na::status_partial));
        EXPECT_EQ(received->length, room);
        EXPECT_EQ(matching_bytes(target.span().first(100), 6), 100U);
        EXPECT_EQ(matching_bytes(target.span().subspan(100, room), 5), room);
        EXPECT_EQ(matching_bytes(target.span().subspan(100 + room), 6, 100 + room),
                  41000 - 100 - room);
        const auto sent = a.send_done();
        ASSERT_TRUE(sent);
        EXPECT_EQ(sent->errors(), reception() ? na::status_remote_descriptor : 0);
        if (reliable()) {
            // The connection is over; the next case needs a new one.
            a.disconnect();
            b.disconnect();
            a.flush();
            b.flush();
            while (a.send_done() || b.receive_done()) {
            }
            ASSERT_TRUE(connect(a, b));
        }
        a.take_events();
        b.take_events();
    }
}

TEST_P(ShmMessage, IntoDeregisteredMemoryIsRefused) {
    const TestMemory source(left, 40000);
    const TestMemory good(right, 40000);
    for (const std::uint32_t bytes : {8U, 2000U, 40000U}) {
        SCOPED_TRACE(bytes);
        TestMemory target(right, 40000);
        fill_pattern(target.span(), 6);
        // Two segments, of which only the second has become invalid.
        b.post_receive({good.pd(0, 4), target.pd()});
        target.deregister();
        a.post_send({source.pd(0, bytes)});
        ASSERT_TRUE(drive(a, b));
        const auto received = b.receive_done();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->errors(), na::status_protection);
        EXPECT_EQ(received->length, 0U);
        EXPECT_EQ(matching_bytes(target.span(), 6), target.size());
        const auto sent = a.send_done();
        ASSERT_TRUE(sent);
        EXPECT_EQ(sent->errors(), reception() ? na::status_remote_descriptor : 0);
        if (reliable()) return;
        transfer(a, b, {source.pd(0, bytes)}, {good.pd(0, bytes)}, bytes);
    }
}

TEST_P(ShmMessage, OfAnotherTagIsRefused) {
    const TestMemory source(left, 100);
    const TestMemory target(right, 100, TestMemory::Kind::Heap, 0, 2);
    b.post_receive({target.pd()});
    a.post_send({source.pd(0, 8)});
    ASSERT_TRUE(drive(a, b));
    const auto received = b.receive_done();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->errors(), na::status_protection);
}

TEST_P(ShmMessage, ToAViWithoutTagMayGoAnywhere) {
    TestVi c(left, GetParam());
    TestVi d(right, GetParam());
    d.queues.local.tag = ka::null_tag;
    d.queues.local.flags = ka::endpoint_any_tag;
    ASSERT_TRUE(connect(c, d));
    const TestMemory source(left, 100);
    const TestMemory target(right, 100, TestMemory::Kind::Heap, 0, 2);
    transfer(c, d, {source.pd()}, {target.pd()}, 8);
}

// The memory may be unmapped by the time the next chunk comes.
TEST_P(ShmMessage, IsCutOffWhenItsMemoryIsDeregisteredOnTheWay) {
    const std::uint32_t chunk =
        std::min(settings().chunk_bytes, settings().geometry.ring_bytes() / 4);
    // Ordinary memory goes by one copy where there is a way to.
    const std::uint32_t bytes =
        cma_works() ? std::min(64 * chunk, settings().single_copy_bytes - 1) : 64 * chunk;
    if (bytes <= 4 * chunk) GTEST_SKIP() << "messages through the ring have few chunks in this run";
    const TestMemory source(left, bytes);
    TestMemory target(right, bytes);
    fill_pattern(target.span(), 6);
    fill_pattern(source.span(), 5);
    b.post_receive({target.pd()});
    a.post_send({source.pd()});
    // The channel holds part of the message only.
    for (int i = 0; i < 40 && target.data()[0] != pattern_byte(5, 0); ++i)
        b.poll();
    std::size_t arrived = matching_bytes(target.span(), 5);
    ASSERT_GT(arrived, 0U);
    if (arrived == bytes) GTEST_SKIP() << "it came in one poll";
    target.deregister();
    ASSERT_TRUE(drive(a, b));
    const auto received = b.receive_done();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->errors() & na::status_protection, na::status_protection);
    EXPECT_EQ(matching_bytes(target.span(), 5), arrived) << "written after it was deregistered";
}

// ---- The end of a connection ----------------------------------------------------------------

TEST_P(ShmMessage, SentBeforeTheEndStillArrives) {
    const TestMemory source(left, 4096);
    const TestMemory target(right, 4096);
    for (int i = 0; i < 5; ++i)
        b.post_receive({target.pd(0, 100)});
    for (std::uint32_t i = 0; i < 5; ++i)
        a.post_send({source.pd(0, 8 + 20 * i)}, {.immediate = i});
    a.disconnect();
    a.flush();
    for (int i = 0; i < 1000 && b.queues.events == 0; ++i)
        b.poll();
    EXPECT_EQ(b.take_events(), event_bits(EndpointEvent::PeerDisconnected));
    for (std::uint32_t i = 0; i < 5; ++i) {
        const auto received = b.receive_done();
        ASSERT_TRUE(received);
        EXPECT_EQ(received->errors(), 0U);
        EXPECT_EQ(received->immediate, i);
    }
    for (int i = 0; i < 1000; ++i)
        b.poll();
    EXPECT_EQ(b.take_events(), 0U) << "it is told once";
    EXPECT_EQ(left.client.ended.size(), 1U);
}

TEST_P(ShmMessage, FlowsAgainAfterANewConnection) {
    const TestMemory source(left, 100000);
    const TestMemory target(right, 100000);
    for (int round = 0; round < 6; ++round) {
        SCOPED_TRACE(round);
        transfer(a, b, {source.pd(0, 100)}, {target.pd(0, 100)}, 1);
        transfer(b, a, {target.pd(0, in_frame)}, {source.pd(0, in_frame)}, 1);
        // Ends in the middle of everything.
        b.post_receive({target.pd()});
        for (const std::uint32_t bytes : {100000U, 8U, 8000U, 100000U})
            a.post_send({source.pd(0, bytes)});
        for (int i = 0; i < round; ++i)
            b.poll();
        a.disconnect();
        b.disconnect();
        a.flush();
        b.flush();
        for (int i = 0; i < 4; ++i)
            ASSERT_TRUE(a.send_done());
        ASSERT_TRUE(b.receive_done());
        ASSERT_FALSE(b.receive_done());
        a.take_events();
        b.take_events();
        EXPECT_FALSE(a.endpoint->unfinished());
        ASSERT_TRUE(round % 2 == 0 ? connect(b, a) : connect(a, b));
    }
}

TEST_P(ShmMessage, NotConnectedEndpointsDoNothing) {
    TestVi c(left, GetParam());
    EXPECT_FALSE(c.poll());
    EXPECT_FALSE(c.endpoint->unfinished());
    EXPECT_EQ(c.endpoint->peer_pid(), 0);
    c.endpoint->arm(na::Wakes::Sleeper);
    c.endpoint->arm(na::Wakes::Nobody);
    c.endpoint->nudge();
    c.endpoint->disconnect();
    const iovec piece{nullptr, 0};
    EXPECT_FALSE(c.endpoint->send_gathered({&piece, 1}, 0));
    EXPECT_EQ(c.endpoint->longest_gathered(), 0U);
    EXPECT_EQ(a.endpoint->peer_pid(), getpid());
}

// ---- Wake-ups --------------------------------------------------------------------------------

std::uint64_t marks_of(TestProcess& process) {
    std::uint64_t marks = 0;
    for (auto& word : process.doorbell.page().marks)
        marks |= word.exchange(0);
    process.doorbell.page().summary = 0;
    return marks;
}

std::uint64_t service_rings(TestProcess& process) {
    std::uint64_t count = 0;
    return ::read(process.doorbell.event(), &count, sizeof count) > 0 ? count : 0;
}

TEST_P(ShmMessage, RingsOnlyWhoAskedForIt) {
    const TestMemory source(left, 100);
    const TestMemory target(right, 100);
    const auto send = [&] { transfer(a, b, {source.pd(0, 8)}, {target.pd(0, 8)}, 1); };
    // Until somebody polls, the service thread is the NIC.
    send();
    EXPECT_NE(marks_of(right), 0U);
    EXPECT_EQ(service_rings(right), 1U);
    EXPECT_EQ(a.counters.wakes_sent.get(), 1U);
    send();
    EXPECT_EQ(marks_of(right), 0U) << "one ring for one wish";
    EXPECT_EQ(service_rings(right), 0U);

    b.endpoint->arm(na::Wakes::Sleeper);
    const std::uint32_t epoch = right.doorbell.page().epoch.load();
    send();
    EXPECT_NE(marks_of(right), 0U);
    EXPECT_NE(right.doorbell.page().epoch.load(), epoch);
    EXPECT_EQ(service_rings(right), 0U);
    EXPECT_EQ(a.counters.wakes_sent.get(), 2U);

    b.endpoint->arm(na::Wakes::Sleeper);
    b.endpoint->arm(na::Wakes::Service);
    send();
    EXPECT_NE(marks_of(right), 0U);
    EXPECT_EQ(service_rings(right), 1U);

    b.endpoint->arm(na::Wakes::Service);
    b.endpoint->arm(na::Wakes::Nobody);
    send();
    EXPECT_EQ(marks_of(right), 0U);
    EXPECT_EQ(service_rings(right), 0U);
}

TEST_P(ShmMessage, NudgeAndDisconnectWakeThePeersServiceThread) {
    EXPECT_EQ(service_rings(right), 0U);
    a.endpoint->nudge();
    EXPECT_GT(service_rings(right), 0U);
    EXPECT_NE(marks_of(right), 0U);
    a.disconnect();
    EXPECT_GT(service_rings(right), 0U);
    EXPECT_NE(marks_of(right), 0U);
}

// ---- Everything at once -------------------------------------------------------------------------

struct Flight {
    std::uint64_t stream = 0;
    std::uint32_t bytes = 0;
    std::optional<std::uint32_t> immediate;
    Pieces target;
};

/// Both sides send and receive at random, with several messages under way.
TEST_P(ShmMessage, SurvivesARandomConversation) {
    for (std::uint64_t seed = 1; seed <= 2 + repeated(10); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        constexpr std::size_t slots = 24;
        constexpr std::size_t slot_bytes = 50000;
        const auto kind = seed % 2 == 0 ? TestMemory::Kind::Kmem : TestMemory::Kind::Heap;
        const TestMemory left_out(left, slots * slot_bytes, kind);
        const TestMemory right_out(right, slots * slot_bytes, kind);
        const TestMemory left_in(left, slots * slot_bytes);
        const TestMemory right_in(right, slots * slot_bytes);
        struct Half {
            TestVi* from;
            TestVi* to;
            const TestMemory* out;
            const TestMemory* in;
            std::uint64_t sent = 0, completed = 0, posted = 0, received = 0;
            std::deque<Flight> flights;  ///< not yet received
            std::deque<Pieces> receives;
        };
        Half halves[2] = {{&a, &b, &left_out, &right_in, 0, 0, 0, 0, {}, {}},
                          {&b, &a, &right_out, &left_in, 0, 0, 0, 0, {}, {}}};
        constexpr std::uint64_t messages = 150;
        int idle = 0;
        while (halves[0].received < messages || halves[1].received < messages ||
               halves[0].completed < messages || halves[1].completed < messages) {
            ASSERT_LT(++idle, 200000) << "no progress";
            Half& half = halves[random.below(2)];
            switch (random.below(4)) {
                case 0:  // A receive, always ahead of the messages.
                    if (half.posted - half.received < slots && half.posted < messages) {
                        const Pieces whole = {
                            half.in->pd(half.posted % slots * slot_bytes, slot_bytes)};
                        half.receives.push_back(whole);
                        half.to->post_receive(whole);
                        ++half.posted;
                    }
                    break;
                case 1:
                    if (half.sent < half.posted && half.sent - half.completed < slots) {
                        Flight flight;
                        flight.stream = seed << 32 | half.sent << 1 | (&half == halves ? 1 : 0);
                        flight.bytes = random.one_in(3)   ? random.between(0, in_frame)
                                       : random.one_in(2) ? random.between(in_frame + 1, 6000)
                                                          : random.between(6000, slot_bytes);
                        if (random.one_in(2))
                            flight.immediate = static_cast<std::uint32_t>(random.next());
                        Pieces source;
                        std::size_t at = half.sent % slots * slot_bytes;
                        for (std::uint32_t left_over = flight.bytes; left_over != 0;) {
                            const std::uint32_t piece = random.between(1, left_over);
                            source.push_back(half.out->pd(at, piece));
                            at += piece;
                            left_over -= piece;
                        }
                        fill_pieces(source, flight.stream);
                        half.from->post_send(source, {.immediate = flight.immediate});
                        half.flights.push_back(flight);
                        ++half.sent;
                    }
                    break;
                default:
                    (random.one_in(2) ? half.from : half.to)->poll();
                    break;
            }
            while (const auto received = half.to->receive_done()) {
                ASSERT_FALSE(half.flights.empty());
                const Flight& flight = half.flights.front();
                ASSERT_EQ(received->errors(), 0U);
                ASSERT_EQ(received->length, flight.bytes);
                ASSERT_EQ(received->has_immediate(), flight.immediate.has_value());
                if (flight.immediate) {
                    ASSERT_EQ(received->immediate, *flight.immediate);
                }
                ASSERT_TRUE(pieces_match(half.receives.front(), flight.stream, flight.bytes));
                half.flights.pop_front();
                half.receives.pop_front();
                ++half.received;
                idle = 0;
            }
            while (const auto sent = half.from->send_done()) {
                ASSERT_EQ(sent->errors(), 0U);
                ++half.completed;
                idle = 0;
            }
        }
        EXPECT_EQ(a.take_events() | b.take_events(), 0U);
        ASSERT_TRUE(drive(a, b));
    }
}

TEST_P(ShmMessage, SurvivesAConversationBetweenThreads) {
    constexpr std::uint32_t messages = repeated(1500);
    const auto deadline = base::Deadline::after_milliseconds(60000);
    const TestMemory out(left, 8 * 20000);
    const TestMemory in(right, 8 * 20000);
    const auto bytes_of_message = [](std::uint32_t i) {
        return i % 50 == 0 ? 20000U : 1 + i * 37 % (i % 3 == 0 ? 4000 : in_frame);
    };
    // At most 8 under way: the receiver grants one for every receive it posts.
    std::atomic<std::uint32_t> granted{0};
    std::thread receiver([&] {
        for (std::uint32_t i = 0; i < 8; ++i)
            b.post_receive({in.pd(i * 20000, 20000)});
        granted = 8;
        for (std::uint32_t i = 0; i < messages && !deadline.expired();) {
            b.poll();
            const auto received = b.receive_done();
            if (!received) {
                sched_yield();
                continue;
            }
            const std::uint32_t bytes = bytes_of_message(i);
            EXPECT_EQ(received->errors(), 0U);
            EXPECT_EQ(received->length, bytes);
            if (matching_bytes(in.span().subspan(i % 8 * 20000, bytes), i) != bytes)
                ADD_FAILURE() << "message " << i;
            b.post_receive({in.pd(i % 8 * 20000, 20000)});
            ++granted;
            ++i;
        }
    });
    std::uint32_t done = 0;
    for (std::uint32_t i = 0; i < messages && !deadline.expired();) {
        a.poll();
        while (a.send_done())
            ++done;
        if (i - done >= 8 || i >= granted.load()) {
            sched_yield();
            continue;
        }
        const std::uint32_t bytes = bytes_of_message(i);
        fill_pattern(out.span().subspan(i % 8 * 20000, bytes), i);
        a.post_send({out.pd(i % 8 * 20000, bytes)});
        ++i;
    }
    while (done < messages && !deadline.expired()) {
        a.poll();
        while (a.send_done())
            ++done;
        sched_yield();
    }
    receiver.join();
    EXPECT_EQ(done, messages);
    EXPECT_FALSE(deadline.expired());
}

INSTANTIATE_TEST_SUITE_P(Levels, ShmMessage,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

}  // namespace
