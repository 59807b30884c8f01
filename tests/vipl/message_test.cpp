// SPDX-License-Identifier: BSD-3-Clause
// VipPostSend and VipPostRecv: what a message is, of which sizes and pieces, and what arrives.
#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

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

}  // namespace
}  // namespace via::test
