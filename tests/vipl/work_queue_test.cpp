// SPDX-License-Identifier: BSD-3-Clause
// VipPostSend, VipPostRecv, VipSendDone, VipRecvDone, VipSendWait, VipRecvWait: what a message is,
// in what order things complete, and what a malformed descriptor does.
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <random>

#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t format_error = VIP_STATUS_FORMAT_ERROR;

// ---- Messages -------------------------------------------------------------------------------

class Message : public EachLevel {};

TEST_P(Message, ArrivesWholeAtEverySize) {
    Pair pair({.level = level(), .arena_bytes = 8U << 20});
    const std::size_t largest =
        std::min<std::size_t>(pair.client.nic.attributes().MaxTransferSize, 1U << 20);
    std::vector<std::size_t> sizes = {
        0,    1,    2,    7,    8,    9,    31,    32,    33,    47,    48,    49,    55,    56,
        57,   63,   64,   65,   100,  127,  128,   129,   500,   1000,  2047,  2048,  2049,  4095,
        4096, 4097, 8191, 8192, 8193, 9999, 16383, 16384, 16385, 20000, 32768, 65472, 65535, 65536};
    for (const std::size_t size :
         {std::size_t{65537}, std::size_t{100000}, std::size_t{262144}, largest - 1, largest}) {
        if (size <= largest) sizes.push_back(size);
    }
    std::byte* source = pair.client.arena.take(largest + 64);
    std::byte* target = pair.server.arena.take(largest + 64);
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    std::uint32_t seed = 1;
    for (const std::size_t size : sizes) {
        SCOPED_TRACE(size);
        fill_pattern(source, size, ++seed);
        std::memset(target, 0xEE, size + 64);
        const Segment into = pair.server.arena.segment(target, size);
        const Segment from = pair.client.arena.segment(source, size);
        fill(receive, {&into, 1});
        fill(send, {&from, 1});
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        const Completion sent = pair.client.vi.await_send();
        ASSERT_VIP(VIP_SUCCESS, sent.code);
        EXPECT_EQ(sent.descriptor, send);
        EXPECT_EQ(sent.status(), done_bit | VIP_STATUS_OP_SEND);
        EXPECT_EQ(sent.length(), size);
        const Completion received = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_EQ(received.status(), done_bit | VIP_STATUS_OP_RECEIVE);
        EXPECT_EQ(received.length(), size);
        ASSERT_TRUE(has_pattern(target, size, seed));
        ASSERT_TRUE(all_bytes_are(target + size, 64, std::byte{0xEE}));
    }
}

TEST_P(Message, ArrivesWholeAtEveryAlignment) {
    Pair pair(level());
    std::byte* source = pair.client.arena.take(4096);
    std::byte* target = pair.server.arena.take(4096);
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    for (std::size_t offset = 0; offset < 17; ++offset) {
        for (const std::size_t size : {3U, 40U, 333U, 3000U}) {
            const auto seed = static_cast<std::uint32_t>(offset * 7 + size);
            fill_pattern(source + offset, size, seed);
            std::memset(target, 0, 4096);
            const Segment into = pair.server.arena.segment(target + (17 - offset), size);
            const Segment from = pair.client.arena.segment(source + offset, size);
            fill(receive, {&into, 1});
            fill(send, {&from, 1});
            ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
            ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
            ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
            ASSERT_TRUE(has_pattern(target + (17 - offset), size, seed));
        }
    }
}

TEST_P(Message, CarriesImmediateData) {
    Pair pair(level());
    for (const std::size_t size : {0U, 4U, 50U, 1000U, 40000U}) {
        std::byte* source = pair.client.arena.take(size + 1);
        std::byte* target = pair.server.arena.take(size + 1);
        fill_pattern(source, size, 4);
        VIP_DESCRIPTOR* receive = pair.server.arena.message(target, size);
        receive->CS.ImmediateData = 0x11111111;
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        const auto immediate = static_cast<std::uint32_t>(0xCAFE0000U + size);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(
                                    pair.client.arena.immediate_message(source, size, immediate)));
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        const Completion received = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        EXPECT_EQ(received.status(), done_bit | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
        EXPECT_EQ(received.descriptor->CS.ImmediateData, immediate);
        EXPECT_EQ(received.length(), size);
        EXPECT_TRUE(has_pattern(target, size, 4));
    }
}

TEST_P(Message, WithoutImmediateDataDoesNotClaimAny) {
    Pair pair(level());
    VIP_DESCRIPTOR* receive =
        pair.server.arena.message(pair.server.arena.take(8), 8, VIP_CONTROL_IMMEDIATE);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
    send->CS.ImmediateData = 77;
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.status() & VIP_STATUS_IMMEDIATE, 0U);
}

TEST_P(Message, MayHaveNoSegments) {
    Pair pair(level());
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    for (const bool immediate : {false, true}) {
        fill(receive, {});
        fill(send, {}, immediate ? VIP_CONTROL_IMMEDIATE : 0U);
        send->CS.ImmediateData = 99;
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        const Completion received = pair.server.vi.await_recv();
        EXPECT_VIP(VIP_SUCCESS, received.code);
        EXPECT_EQ(received.length(), 0U);
        if (immediate) {
            EXPECT_EQ(received.descriptor->CS.ImmediateData, 99U);
        }
    }
}

TEST_P(Message, OfNoBytesMayBePartOfALargerBuffer) {
    Pair pair(level());
    std::byte* target = pair.server.arena.take(64);
    std::memset(target, 0x33, 64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 64)));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 0)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.length(), 0U);
    EXPECT_TRUE(all_bytes_are(target, 64, std::byte{0x33}));
}

TEST_P(Message, ShorterThanTheBufferLeavesTheRestAlone) {
    Pair pair(level());
    std::byte* target = pair.server.arena.take(1000);
    std::memset(target, 0x44, 1000);
    std::byte* source = pair.client.arena.take(300);
    fill_pattern(source, 300, 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 1000)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 300)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.length(), 300U);
    EXPECT_TRUE(has_pattern(target, 300, 8));
    EXPECT_TRUE(all_bytes_are(target + 300, 700, std::byte{0x44}));
}

/// Cuts `bytes` bytes at `data` into `count` pieces with gaps, and returns where they lie.
std::vector<Segment> cut(Arena& arena, std::size_t bytes, std::size_t count, std::mt19937& random) {
    std::vector<std::size_t> marks = {0, bytes};
    for (std::size_t i = 1; i < count; ++i) {
        marks.push_back(std::uniform_int_distribution<std::size_t>(0, bytes)(random));
    }
    std::sort(marks.begin(), marks.end());
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t length = marks[i + 1] - marks[i];
        const std::size_t alignment = std::size_t{1} << (random() % 4);
        segments.push_back(arena.segment(arena.take(length + random() % 9, alignment), length));
    }
    return segments;
}

TEST_P(Message, GathersAndScattersUpToTheMaximumOfSegments) {
    Pair pair({.level = level(), .arena_bytes = 16U << 20});
    const auto most = static_cast<std::size_t>(pair.client.nic.attributes().MaxSegmentsPerDesc);
    std::mt19937 random(12345);
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor(most);
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor(most);
    for (const std::size_t bytes : {5U, 50U, 3000U, 60000U}) {
        for (const auto& [send_count, receive_count] : {std::pair{most, std::size_t{1}},
                                                        {std::size_t{1}, most},
                                                        {most, most},
                                                        {std::size_t{2}, std::size_t{3}},
                                                        {most / 2, most - 1}}) {
            SCOPED_TRACE(testing::Message() << bytes << " bytes, " << send_count << " to "
                                            << receive_count << " segments");
            const auto from = cut(pair.client.arena, bytes, send_count, random);
            const auto into = cut(pair.server.arena, bytes, receive_count, random);
            std::vector<std::byte> whole(bytes);
            fill_pattern(whole.data(), bytes, static_cast<std::uint32_t>(bytes));
            std::size_t offset = 0;
            for (const Segment& segment : from) {
                std::memcpy(const_cast<void*>(segment.data), whole.data() + offset, segment.bytes);
                offset += segment.bytes;
            }
            fill(send, from);
            fill(receive, into);
            ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
            ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
            const Completion received = pair.server.vi.await_recv();
            ASSERT_VIP(VIP_SUCCESS, received.code);
            ASSERT_EQ(received.length(), bytes);
            std::vector<std::byte> collected;
            for (const Segment& segment : into) {
                const auto* data = static_cast<const std::byte*>(segment.data);
                collected.insert(collected.end(), data, data + segment.bytes);
            }
            ASSERT_TRUE(has_pattern(collected.data(), bytes, static_cast<std::uint32_t>(bytes)));
        }
    }
}

TEST_P(Message, ABufferCanBeReusedWhenTheSendIsComplete) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    for (const std::size_t size : {8U, 1000U, 60000U}) {
        constexpr std::size_t count = 8;
        std::byte* source = pair.client.arena.take(size);
        std::vector<std::byte*> targets;
        for (std::size_t i = 0; i < count; ++i) {
            targets.push_back(pair.server.arena.take(size));
            ASSERT_VIP(VIP_SUCCESS,
                       pair.server.post_recv(pair.server.arena.message(targets.back(), size)));
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            fill_pattern(source, size, i);
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, size)));
            ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
            EXPECT_TRUE(has_pattern(targets[i], size, i));
        }
    }
}

TEST_P(Message, StreamsKeepOrderAndContents) {
    // Receives are always posted before the sends they serve, so that no level may lose any.
    Pair pair({.level = level(), .arena_bytes = 16U << 20});
    constexpr std::size_t window = 32;
    constexpr std::size_t room = 20000;
    struct Slot {
        VIP_DESCRIPTOR* descriptor;
        std::byte* data;
    };
    std::vector<Slot> sends;
    std::vector<Slot> receives;
    for (std::size_t i = 0; i < window; ++i) {
        sends.push_back({pair.client.arena.descriptor(), pair.client.arena.take(room)});
        receives.push_back({pair.server.arena.descriptor(), pair.server.arena.take(room)});
    }
    std::mt19937 random(99);
    const auto size_of = [](std::uint32_t number) {
        std::mt19937 source(number);
        return source() % 8 == 0 ? source() % room : source() % 200;
    };
    const auto post_receive = [&](std::uint32_t number) {
        const Slot& slot = receives[number % window];
        const Segment segment = pair.server.arena.segment(slot.data, room);
        fill(slot.descriptor, {&segment, 1});
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(slot.descriptor));
    };
    const auto total = static_cast<std::uint32_t>(rounds(4000));
    for (std::uint32_t i = 0; i < window; ++i)
        post_receive(i);
    std::uint32_t posted = 0;
    std::uint32_t completed = 0;
    std::uint32_t arrived = 0;
    ASSERT_TRUE(eventually([&] {
        for (unsigned burst = random() % 4; burst > 0; --burst) {
            if (posted == total || posted - arrived == window || posted - completed == window)
                break;
            const Slot& slot = sends[posted % window];
            const std::size_t bytes = size_of(posted);
            fill_pattern(slot.data, bytes, posted);
            const Segment segment = pair.client.arena.segment(slot.data, bytes);
            fill(slot.descriptor, {&segment, 1}, VIP_CONTROL_IMMEDIATE);
            slot.descriptor->CS.ImmediateData = posted;
            EXPECT_VIP(VIP_SUCCESS, pair.client.post_send(slot.descriptor));
            ++posted;
        }
        VIP_DESCRIPTOR* head = nullptr;
        if (VipSendDone(pair.client.vi, &head) == VIP_SUCCESS) {
            EXPECT_EQ(head, sends[completed % window].descriptor);
            ++completed;
        }
        if (VipRecvDone(pair.server.vi, &head) == VIP_SUCCESS) {
            const Slot& slot = receives[arrived % window];
            EXPECT_EQ(head, slot.descriptor);
            EXPECT_EQ(head->CS.ImmediateData, arrived);
            EXPECT_EQ(head->CS.Length, size_of(arrived));
            EXPECT_TRUE(has_pattern(slot.data, size_of(arrived), arrived));
            ++arrived;
            post_receive(arrived + window - 1);
        }
        return testing::Test::HasFailure() || (arrived == total && completed == total);
    }));
    EXPECT_EQ(arrived, total);
}

PEER(stream_back) {
    ClientEnd client({.level = link.get<VIP_RELIABILITY_LEVEL>(), .arena_bytes = 4U << 20});
    constexpr std::uint32_t window = 16;
    constexpr std::size_t room = 5000;
    const auto total = link.get<std::uint32_t>();
    client.request(link);
    std::vector<VIP_DESCRIPTOR*> receives;
    std::vector<std::byte*> buffers;
    for (std::uint32_t i = 0; i < window; ++i) {
        buffers.push_back(client.end.arena.take(room));
        receives.push_back(client.end.arena.message(buffers.back(), room));
        ASSERT_VIP(VIP_SUCCESS, client.end.post_recv(receives.back()));
    }
    link.meet();
    VIP_DESCRIPTOR* answer = client.end.arena.descriptor();
    for (std::uint32_t i = 0; i < total; ++i) {
        const Completion received = client.end.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        ASSERT_EQ(received.descriptor, receives[i % window]);
        ASSERT_TRUE(has_pattern(buffers[i % window], received.length(), i));
        const Segment back = client.end.arena.segment(buffers[i % window], received.length());
        fill(answer, {&back, 1});
        ASSERT_VIP(VIP_SUCCESS, client.end.post_send(answer));
        ASSERT_VIP(VIP_SUCCESS, client.end.vi.await_send().code);
        received.descriptor->CS.Length = room;
        ASSERT_VIP(VIP_SUCCESS, client.end.post_recv(received.descriptor));
    }
    link.meet();
}

TEST_P(Message, PingPongBetweenProcesses) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("stream_back");
    const auto total = static_cast<std::uint32_t>(rounds(2000));
    peer.link.put(level());
    peer.link.put(total);
    ServerEnd server({.level = level(), .arena_bytes = 4U << 20});
    server.accept(peer.link);
    peer.link.meet();
    std::byte* source = server.end.arena.take(5000);
    std::byte* target = server.end.arena.take(5000);
    VIP_DESCRIPTOR* send = server.end.arena.descriptor();
    VIP_DESCRIPTOR* receive = server.end.arena.descriptor();
    for (std::uint32_t i = 0; i < total; ++i) {
        const std::size_t bytes = i % 3 == 0 ? i * 37 % 5000 : i % 100;
        fill_pattern(source, bytes, i);
        const Segment into = server.end.arena.segment(target, 5000);
        fill(receive, {&into, 1});
        ASSERT_VIP(VIP_SUCCESS, server.end.post_recv(receive));
        const Segment from = server.end.arena.segment(source, bytes);
        fill(send, {&from, 1});
        ASSERT_VIP(VIP_SUCCESS, server.end.post_send(send));
        ASSERT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
        const Completion received = server.end.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        ASSERT_EQ(received.length(), bytes);
        ASSERT_TRUE(has_pattern(target, bytes, i));
    }
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

INSTANTIATE_EACH_LEVEL(Message);

// ---- Queues ---------------------------------------------------------------------------------

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

// ---- Limits and bad posts -------------------------------------------------------------------

TEST(Post, UpToTheMaximumOfDescriptorsAndNoMore) {
    Nic nic;
    const auto maximum = static_cast<std::size_t>(nic.attributes().MaxDescriptorsPerQueue);
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.bytes = 64 * (2 * maximum + 16), .tag = tag});
    Vi vi(nic, {.tag = tag});
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.descriptor(), arena.handle())) << i;
    }
    EXPECT_EQ(nic.errors().count(), 0U);
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipPostRecv(vi, arena.descriptor(), arena.handle()));
    EXPECT_TRUE(nic.errors().await(VIP_ERROR_VI_OVERRUN, vi));
    // The send queue has its own count; flushed descriptors stay on it until they are taken.
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipPostSend(vi, arena.descriptor(), arena.handle())) << i;
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipPostSend(vi, arena.descriptor(), arena.handle()));
    EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &head));
    EXPECT_VIP(VIP_SUCCESS, VipPostSend(vi, arena.descriptor(), arena.handle()));
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi));
    EXPECT_EQ(vi.drain_recv().size(), maximum);
    EXPECT_EQ(vi.drain_send().size(), maximum);
}

TEST(Post, OverrunLeavesAConnectionWorking) {
    Pair pair({.level = unreliable, .arena_bytes = 8U << 20});
    const auto maximum =
        static_cast<std::size_t>(pair.server.nic.attributes().MaxDescriptorsPerQueue);
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.descriptor()));
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, pair.server.post_recv(pair.server.arena.descriptor()));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_VI_OVERRUN, pair.server.vi));
    EXPECT_TRUE(pair.both_connected());
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.descriptor()));
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
}

TEST(Post, ManyOutstandingSendsAreAllDelivered) {
    Pair pair({.arena_bytes = 16U << 20});
    const auto maximum =
        static_cast<std::size_t>(pair.server.nic.attributes().MaxDescriptorsPerQueue);
    const std::size_t count = std::min<std::size_t>(maximum, 4096);
    std::byte* source = pair.client.arena.take(count * 4);
    std::byte* target = pair.server.arena.take(count * 4);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.server.post_recv(pair.server.arena.message(target + 4 * i, 4)));
    }
    fill_pattern(source, count * 4, 21);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(source + 4 * i, 4)));
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    }
    EXPECT_TRUE(has_pattern(target, count * 4, 21));
}

TEST(Post, RefusesNullAndMisalignedDescriptors) {
    Pair pair;
    VIP_DESCRIPTOR* good = pair.client.arena.descriptor(10);
    auto* bytes = reinterpret_cast<std::byte*>(good);
    const VIP_MEM_HANDLE handle = pair.client.arena.handle();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostSend(pair.client.vi, nullptr, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(pair.client.vi, nullptr, handle));
    for (const std::size_t offset : {1U, 4U, 8U, 16U, 32U, 63U}) {
        auto* crooked = reinterpret_cast<VIP_DESCRIPTOR*>(bytes + offset);
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostSend(pair.client.vi, crooked, handle)) << offset;
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(pair.client.vi, crooked, handle)) << offset;
    }
    EXPECT_TRUE(pair.client.vi.send_queue_empty());
    EXPECT_TRUE(pair.client.vi.recv_queue_empty());
}

TEST(Post, RefusesBadViHandles) {
    Pair pair;
    VIP_DESCRIPTOR* good = pair.client.arena.descriptor();
    const VIP_MEM_HANDLE handle = pair.client.arena.handle();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostSend(nullptr, good, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(nullptr, good, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipPostSend(static_cast<VIP_NIC_HANDLE>(pair.client.nic), good, handle));
}

class BadDescriptorMemory : public EachLevel {};

TEST_P(BadDescriptorMemory, IsRefusedAndReported) {
    constexpr std::size_t page = 4096;
    const auto unmap = [](void* address) { ::munmap(address, page); };
    const std::unique_ptr<void, decltype(unmap)> unreadable(
        ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), unmap);
    ASSERT_NE(unreadable.get(), MAP_FAILED);
    enum class Fault { UnknownHandle, StaleHandle, OtherRegion, OtherTag, RunsOverTheEnd, Nowhere };
    for (const Fault fault : {Fault::UnknownHandle, Fault::StaleHandle, Fault::OtherRegion,
                              Fault::OtherTag, Fault::RunsOverTheEnd, Fault::Nowhere}) {
        for (const bool receive : {false, true}) {
            SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault)
                                            << (receive ? ", receive" : ", send"));
            Pair pair(level());
            Nic& nic = pair.client.nic;
            alignas(4096) static std::byte memory[4096];
            std::memset(memory, 0, sizeof memory);
            auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
            VIP_MEM_ATTRIBUTES attributes{pair.client.tag, VIP_FALSE, VIP_FALSE};
            VIP_MEM_HANDLE handle = 0;
            switch (fault) {
                case Fault::UnknownHandle:
                    handle = 0x12345678;
                    break;
                case Fault::StaleHandle:
                    ASSERT_VIP(VIP_SUCCESS,
                               VipRegisterMem(nic, memory, sizeof memory, &attributes, &handle));
                    ASSERT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, memory, handle));
                    break;
                case Fault::OtherRegion:
                    handle = pair.client.arena.handle();
                    break;
                case Fault::OtherTag:
                    attributes.Ptag = make_tag(nic);
                    ASSERT_VIP(VIP_SUCCESS,
                               VipRegisterMem(nic, memory, sizeof memory, &attributes, &handle));
                    break;
                case Fault::RunsOverTheEnd: {
                    // Five segments begin inside the region and end outside.
                    ASSERT_VIP(VIP_SUCCESS, VipRegisterMem(nic, memory, 100, &attributes, &handle));
                    const std::vector<Segment> five(
                        5, pair.client.arena.segment(pair.client.arena.base(), 8));
                    fill(descriptor, five);
                    break;
                }
                case Fault::Nowhere:
                    // Nobody may look at it before it is known to be in the region.
                    descriptor = static_cast<VIP_DESCRIPTOR*>(unreadable.get());
                    handle = pair.client.arena.handle();
                    break;
            }
            EXPECT_VIP(VIP_INVALID_PARAMETER,
                       receive ? VipPostRecv(pair.client.vi, descriptor, handle)
                               : VipPostSend(pair.client.vi, descriptor, handle));
            EXPECT_TRUE(nic.errors().await(VIP_ERROR_POST_DESC, pair.client.vi));
            EXPECT_TRUE(pair.client.vi.send_queue_empty());
            EXPECT_TRUE(pair.client.vi.recv_queue_empty());
            if (breaks_on_error()) {
                EXPECT_TRUE(pair.both_break());
            } else {
                expect_traffic(pair);
            }
        }
    }
}

TEST_P(BadDescriptorMemory, OnAnIdleViChangesNoState) {
    Pair pair({.level = level(), .connected = false});
    alignas(64) static std::byte memory[64];
    auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(pair.client.vi, descriptor, 0x12345678));
    EXPECT_TRUE(pair.client.nic.errors().await(VIP_ERROR_POST_DESC, pair.client.vi));
    EXPECT_EQ(pair.client.vi.state(), VIP_STATE_IDLE);
    pair.connect_again();
    expect_traffic(pair);
}

INSTANTIATE_EACH_LEVEL(BadDescriptorMemory);

// ---- Malformed descriptors ------------------------------------------------------------------

class Malformed : public EachLevel {
  protected:
    /// Posts a send that must fail with `bits`, and checks what becomes of the connection.
    static void expect_send_error(Pair& pair, VIP_DESCRIPTOR* send, std::uint32_t bits) {
        std::byte* target = pair.server.arena.take(64);
        std::memset(target, 0x21, 64);
        VIP_DESCRIPTOR* receive = pair.server.arena.message(target, 64);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        const Completion sent = pair.client.vi.await_send();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, sent.code);
        EXPECT_EQ(sent.descriptor, send);
        EXPECT_EQ(sent.status() & done_bit, done_bit);
        EXPECT_EQ(sent.errors() & bits, bits);
        EXPECT_EQ(sent.errors() & flushed_error, 0U);
        if (breaks_on_error()) {
            EXPECT_TRUE(pair.both_break());
            const Completion flushed = pair.server.vi.await_recv();
            EXPECT_VIP(VIP_DESCRIPTOR_ERROR, flushed.code);
            EXPECT_EQ(flushed.errors() & flushed_error, flushed_error);
        } else {
            // Nothing was sent: the receive still waits, for the next message.
            std::byte* data = pair.client.arena.take(5);
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(data, 5)));
            EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
            const Completion received = pair.server.vi.await_recv();
            EXPECT_VIP(VIP_SUCCESS, received.code);
            EXPECT_EQ(received.length(), 5U);
        }
        EXPECT_TRUE(all_bytes_are(target + 5, 59, std::byte{0x21}));
    }
};

TEST_P(Malformed, ReservedOperation) {
    Pair pair(level());
    expect_send_error(
        pair, pair.client.arena.message(pair.client.arena.take(8), 8, VIP_CONTROL_OP_RESERVED),
        format_error);
}

TEST_P(Malformed, ReservedControlBits) {
    Pair pair(level());
    expect_send_error(pair, pair.client.arena.message(pair.client.arena.take(8), 8, 0x8000),
                      format_error);
}

TEST_P(Malformed, TooManySegments) {
    Pair pair(level());
    const auto most = static_cast<std::size_t>(pair.client.nic.attributes().MaxSegmentsPerDesc);
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor(most + 1);
    const std::vector<Segment> segments(most + 1,
                                        pair.client.arena.segment(pair.client.arena.base(), 0));
    fill(send, segments);
    expect_send_error(pair, send, format_error);
}

TEST_P(Malformed, AnAbsurdNumberOfSegments) {
    // The arena is large enough to hold them all: the number alone is wrong.
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    send->CS.SegCount = 0xFFFF;
    expect_send_error(pair, send, format_error);
}

TEST_P(Malformed, RdmaWithoutAnAddressSegment) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    send->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    expect_send_error(pair, send, format_error);
}

TEST_P(Malformed, LengthThatDisagreesWithTheSegments) {
    for (const std::uint32_t length : {0U, 7U, 9U, 0xFFFFFFFFU}) {
        Pair pair(level());
        VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
        send->CS.Length = length;
        expect_send_error(pair, send, length_error);
    }
}

TEST_P(Malformed, SegmentsWhoseSumOverflows) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor(3);
    const Segment huge{pair.client.arena.base(), pair.client.arena.handle(), 0x80000000U};
    const Segment segments[] = {huge, huge, pair.client.arena.segment(pair.client.arena.base(), 8)};
    fill(send, segments);
    EXPECT_EQ(send->CS.Length, 8U) << "the sum has wrapped";
    std::byte* target = pair.server.arena.take(64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    const Completion sent = pair.client.vi.await_send();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, sent.code);
    EXPECT_NE(sent.errors() & (length_error | protection_error), 0U);
}

TEST_P(Malformed, LongerThanTheMaximumTransfer) {
    Pair pair({.level = level(), .max_transfer_bytes = 1000});
    std::byte* source = pair.client.arena.take(1001);
    std::byte* target = pair.server.arena.take(1001);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 1000)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 1000)));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    expect_send_error(pair, pair.client.arena.message(source, 1001), length_error);
}

TEST_P(Malformed, ProtectionOfASendSegment) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    const Segment segment{pair.client.arena.take(8), 0x12345678, 8};
    fill(send, {&segment, 1});
    expect_send_error(pair, send, protection_error);
}

TEST_P(Malformed, RdmaOperationOnTheReceiveQueue) {
    for (const unsigned operation : std::initializer_list<unsigned>{
             VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD, VIP_CONTROL_OP_RESERVED}) {
        Pair pair(level());
        VIP_DESCRIPTOR* receive =
            pair.server.arena.message(pair.server.arena.take(64), 64, operation);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
        const Completion received = pair.server.vi.await_recv();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_NE(received.errors() & format_error, 0U);
        if (breaks_on_error()) {
            EXPECT_TRUE(pair.both_break());
        } else {
            EXPECT_TRUE(pair.both_connected());
        }
    }
}

TEST_P(Malformed, TooManySegmentsOnTheReceiveQueue) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    receive->CS.SegCount = 0xFFFF;
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
    EXPECT_EQ(received.descriptor, receive);
    EXPECT_NE(received.errors() & format_error, 0U);
}

TEST_P(Malformed, TheBadOneFailsAndTheRestIsFlushedInOrder) {
    if (!breaks_on_error()) GTEST_SKIP() << "nothing is flushed where errors do not break";
    Pair pair(level());
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 4; ++i) {
        receives.push_back(pair.server.arena.message(pair.server.arena.take(8), 8));
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receives.back()));
    }
    std::vector<VIP_DESCRIPTOR*> sends;
    for (int i = 0; i < 4; ++i) {
        sends.push_back(pair.client.arena.message(pair.client.arena.take(8), 8));
    }
    sends[1]->CS.Length = 3;
    for (VIP_DESCRIPTOR* send : sends)
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    ASSERT_TRUE(pair.both_break());
    const std::uint32_t expected[] = {0, length_error, flushed_error, flushed_error};
    for (std::size_t i = 0; i < sends.size(); ++i) {
        const Completion sent = pair.client.vi.await_send();
        EXPECT_EQ(sent.descriptor, sends[i]);
        if (i == 0) {
            // It was under way when the next one broke the connection; no more can be said at RD.
            EXPECT_TRUE(sent.errors() == 0 || sent.errors() == flushed_error);
        } else {
            EXPECT_EQ(sent.errors(), expected[i]) << i;
        }
    }
    // What the receiver got is a beginning of what was sent, never a later message.
    bool flushing = false;
    for (std::size_t i = 0; i < receives.size(); ++i) {
        const Completion received = pair.server.vi.await_recv();
        EXPECT_EQ(received.descriptor, receives[i]);
        if (received.code == VIP_SUCCESS) {
            EXPECT_FALSE(flushing);
            EXPECT_EQ(i, 0U);
        } else {
            flushing = true;
            EXPECT_EQ(received.errors(), flushed_error);
        }
    }
}

INSTANTIATE_EACH_LEVEL(Malformed);

}  // namespace
}  // namespace via::test
