// SPDX-License-Identifier: BSD-3-Clause
// RDMA write and read: what is moved, what the target notices, in what order, and that the target
// needs to do nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

class RdmaWrite : public EachLevel {};

/// What the target of an RDMA gives its peer through the link.
struct Target {
    void* data = nullptr;
    VIP_MEM_HANDLE handle = 0;
    std::size_t bytes = 0;
};

const std::size_t rdma_sizes[] = {0,   1,    3,    4,    8,     40,    63,    64,    65,
                                  200, 1000, 4096, 4097, 16384, 16385, 65536, 100000};

TEST_P(RdmaWrite, PlacesTheDataAndConsumesNoReceive) {
    Pair pair({.level = level(), .arena_bytes = 8U << 20});
    VIP_DESCRIPTOR* waiting = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(waiting));
    std::uint32_t seed = 30;
    for (const std::size_t size : rdma_sizes) {
        if (size > pair.client.nic.attributes().MaxTransferSize) continue;
        SCOPED_TRACE(size);
        std::byte* source = pair.client.arena.take(size + 8);
        std::byte* target = pair.server.arena.take(size + 128);
        std::memset(target, 0x71, size + 128);
        fill_pattern(source + 3, size, ++seed);
        VIP_DESCRIPTOR* write = pair.client.arena.rdma_write(
            source + 3, size, {target + 5, pair.server.arena.handle()});
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
        const Completion written = pair.client.vi.await_send();
        ASSERT_VIP(VIP_SUCCESS, written.code);
        EXPECT_EQ(written.descriptor, write);
        EXPECT_EQ(written.status(), done_bit | VIP_STATUS_OP_RDMA_WRITE);
        EXPECT_EQ(written.length(), size);
        EXPECT_TRUE(comes_to_show_pattern(target + 5, size, seed));
        EXPECT_TRUE(all_bytes_are(target, 5, std::byte{0x71}));
        EXPECT_TRUE(all_bytes_are(target + 5 + size, 100, std::byte{0x71}));
    }
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.server.vi, &head));
    EXPECT_EQ(pair.server.nic.errors().count(), 0U);
}

TEST_P(RdmaWrite, WithImmediateDataConsumesAReceiveAndTouchesNotItsSegments) {
    Pair pair({.level = level(), .arena_bytes = 8U << 20});
    std::uint32_t seed = 60;
    for (const std::size_t size : rdma_sizes) {
        if (size > pair.client.nic.attributes().MaxTransferSize) continue;
        SCOPED_TRACE(size);
        std::byte* source = pair.client.arena.take(size + 8);
        std::byte* target = pair.server.arena.take(size + 8);
        std::byte* segment = pair.server.arena.take(32);
        std::memset(segment, 0x72, 32);
        fill_pattern(source, size, ++seed);
        VIP_DESCRIPTOR* receive = pair.server.arena.message(segment, 32);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        VIP_DESCRIPTOR* write = pair.client.arena.rdma_write(
            source, size, {target, pair.server.arena.handle()}, VIP_CONTROL_IMMEDIATE);
        write->CS.ImmediateData = seed;
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
        const Completion written = pair.client.vi.await_send();
        ASSERT_VIP(VIP_SUCCESS, written.code);
        const Completion received = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_EQ(received.status(),
                  done_bit | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
        EXPECT_EQ(received.descriptor->CS.ImmediateData, seed);
        EXPECT_EQ(received.length(), size);
        EXPECT_TRUE(has_pattern(target, size, seed));
        EXPECT_TRUE(all_bytes_are(segment, 32, std::byte{0x72}));
    }
}

TEST_P(RdmaWrite, WithImmediateDataNeedsAReceive) {
    Pair pair(level());
    std::byte* target = pair.server.arena.take(8);
    VIP_DESCRIPTOR* write = pair.client.arena.rdma_write(
        pair.client.arena.take(8), 8, {target, pair.server.arena.handle()}, VIP_CONTROL_IMMEDIATE);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
    const Completion written = pair.client.vi.await_send();
    if (reports_reception()) {
        EXPECT_EQ(written.errors(), static_cast<unsigned>(VIP_STATUS_REMOTE_DESC_ERROR));
    }
    EXPECT_TRUE(pair.server.raises(VIP_ERROR_RECVQ_EMPTY));
    if (breaks_on_error()) {
        EXPECT_TRUE(pair.both_break());
    } else {
        EXPECT_VIP(VIP_SUCCESS, written.code);
        EXPECT_TRUE(pair.both_connected());
        expect_traffic(pair);
    }
}

TEST_P(RdmaWrite, GathersUpToTheMaximumOfSegments) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    const auto most = static_cast<std::size_t>(pair.client.nic.attributes().MaxSegmentsPerDesc);
    for (const std::size_t piece : {1U, 13U, 200U}) {
        // The address segment counts as one.
        const std::size_t count = most - 1;
        std::vector<Segment> segments;
        std::vector<std::byte> whole(count * piece);
        fill_pattern(whole.data(), whole.size(), 5);
        for (std::size_t i = 0; i < count; ++i) {
            std::byte* part = pair.client.arena.take(piece + 3, 1);
            std::memcpy(part, whole.data() + i * piece, piece);
            segments.push_back(pair.client.arena.segment(part, piece));
        }
        std::byte* target = pair.server.arena.take(whole.size());
        VIP_DESCRIPTOR* write = pair.client.arena.descriptor(most);
        fill_rdma(write, {target, pair.server.arena.handle()}, segments, VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
        EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        EXPECT_TRUE(comes_to_show_pattern(target, whole.size(), 5));
    }
}

TEST_P(RdmaWrite, OfNoSegmentsIsLegal) {
    Pair pair(level());
    std::byte* target = pair.server.arena.take(8);
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    VIP_DESCRIPTOR* write = pair.client.arena.descriptor();
    fill_rdma(write, {target, pair.server.arena.handle()}, {},
              VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE);
    write->CS.ImmediateData = 31;
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.length(), 0U);
    EXPECT_EQ(received.descriptor->CS.ImmediateData, 31U);
}

TEST_P(RdmaWrite, LongerThanTheMaximumTransferIsALengthError) {
    Pair pair({.level = level(), .max_transfer_bytes = 500});
    std::byte* target = pair.server.arena.take(501);
    std::memset(target, 0x73, 501);
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.rdma_write(
                   pair.client.arena.take(501), 501, {target, pair.server.arena.handle()})));
    const Completion written = pair.client.vi.await_send();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, written.code);
    EXPECT_NE(written.errors() & VIP_STATUS_LENGTH_ERROR, 0U);
    EXPECT_TRUE(all_bytes_are(target, 501, std::byte{0x73}));
}

TEST_P(RdmaWrite, IsOverWhenAFollowingSendArrives) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    const std::size_t room = 70000;
    std::byte* source = pair.client.arena.take(room);
    std::byte* target = pair.server.arena.take(room);
    VIP_DESCRIPTOR* write = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    for (std::uint32_t i = 0; i < rounds(300); ++i) {
        const std::size_t size = i % 10 == 0 ? room : (i * 97) % 3000;
        fill_pattern(source, size, i);
        const Segment from = pair.client.arena.segment(source, size);
        fill_rdma(write, {target, pair.server.arena.handle()}, {&from, 1},
                  VIP_CONTROL_OP_RDMAWRITE);
        fill(receive, {});
        fill(send, {});
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
        ASSERT_TRUE(has_pattern(target, size, i)) << "the send overtook the write";
        ASSERT_EQ(pair.client.vi.await_send().descriptor, write);
        ASSERT_EQ(pair.client.vi.await_send().descriptor, send);
    }
}

TEST_P(RdmaWrite, TheSameMemoryCanBeOpenUnderOneHandleAndShutUnderAnother) {
    Pair pair(level());
    std::vector<std::byte> memory(4096);
    VIP_MEM_ATTRIBUTES shut{pair.server.tag, VIP_FALSE, VIP_FALSE};
    VIP_MEM_ATTRIBUTES open{pair.server.tag, VIP_TRUE, VIP_FALSE};
    VIP_MEM_HANDLE shut_handle = 0;
    VIP_MEM_HANDLE open_handle = 0;
    ASSERT_VIP(VIP_SUCCESS,
               VipRegisterMem(pair.server.nic, memory.data(), 4096, &shut, &shut_handle));
    ASSERT_VIP(VIP_SUCCESS,
               VipRegisterMem(pair.server.nic, memory.data(), 4096, &open, &open_handle));
    std::byte* source = pair.client.arena.take(100);
    fill_pattern(source, 100, 2);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                source, 100, {memory.data(), open_handle})));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_TRUE(comes_to_show_pattern(memory.data(), 100, 2));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                source, 100, {memory.data() + 1000, shut_handle})));
    EXPECT_TRUE(pair.server.raises(VIP_ERROR_RDMAW_PROT));
    EXPECT_TRUE(all_bytes_are(memory.data() + 1000, 100, std::byte{0}));
}

TEST_P(RdmaWrite, RightsCanBeGivenLater) {
    Pair pair(level());
    std::vector<std::byte> memory(4096);
    VIP_MEM_ATTRIBUTES attributes{pair.server.tag, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle = 0;
    ASSERT_VIP(VIP_SUCCESS,
               VipRegisterMem(pair.server.nic, memory.data(), 4096, &attributes, &handle));
    attributes.EnableRdmaWrite = VIP_TRUE;
    ASSERT_VIP(VIP_SUCCESS,
               VipSetMemAttributes(pair.server.nic, memory.data(), handle, &attributes));
    std::byte* source = pair.client.arena.take(100);
    fill_pattern(source, 100, 3);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                source, 100, {memory.data(), handle})));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_TRUE(comes_to_show_pattern(memory.data(), 100, 3));
}

// The target calls nothing of VIPL: it looks at its memory, and tells over the link what it saw.
PEER(idle_target) {
    ClientEnd client({.level = link.get<VIP_RELIABILITY_LEVEL>(), .arena_bytes = 4U << 20});
    client.request(link);
    const auto largest = link.get<std::size_t>();
    std::byte* data = client.end.arena.take(largest + 64);
    link.put(Target{data, client.end.arena.handle(), largest});
    for (;;) {
        const auto bytes = link.get<std::size_t>();
        if (bytes == 0) break;
        const auto round = link.get<std::uint32_t>();
        const auto* words = reinterpret_cast<const std::uint32_t*>(data);
        const std::size_t last = bytes / 4 - 1;
        // Every word carries the round, so that each tells whether it is old or new.
        const bool arrived =
            eventually([&] { return __atomic_load_n(words + last, __ATOMIC_ACQUIRE) == round; });
        ASSERT_TRUE(arrived) << "round " << round << ", " << bytes << " bytes";
        for (std::size_t i = 0; i < last; ++i) {
            ASSERT_EQ(words[i], round)
                << "word " << i << " of " << last + 1 << " came after the last one";
        }
        link.put(round);
    }
    link.meet();
}

TEST_P(RdmaWrite, CompletesAtAnIdleTargetWithTheLastWordLast) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("idle_target");
    peer.link.put(level());
    ServerEnd server({.level = level(), .arena_bytes = 4U << 20});
    server.accept(peer.link);
    const std::size_t largest =
        std::min<std::size_t>(1U << 20, server.nic.attributes().MaxTransferSize);
    peer.link.put(largest);
    const auto target = peer.link.get<Target>();
    std::byte* source = server.end.arena.take(largest);
    VIP_DESCRIPTOR* write = server.end.arena.descriptor();
    const std::size_t word_sizes[] = {4,   8,    12,   16,   32,    60,    64,    128,
                                      192, 1024, 4096, 4100, 16384, 16388, 65536, largest};
    std::uint32_t round = 0;
    for (unsigned i = 0; i < rounds(20); ++i) {
        for (const std::size_t bytes : word_sizes) {
            ++round;
            auto* words = reinterpret_cast<std::uint32_t*>(source);
            std::fill(words, words + bytes / 4, round);
            const Segment from = server.end.arena.segment(source, bytes);
            fill_rdma(write, {target.data, target.handle}, {&from, 1}, VIP_CONTROL_OP_RDMAWRITE);
            peer.link.put(bytes);
            peer.link.put(round);
            ASSERT_VIP(VIP_SUCCESS, server.end.post_send(write));
            ASSERT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
            ASSERT_EQ(peer.link.get<std::uint32_t>(), round);
        }
    }
    peer.link.put(std::size_t{0});
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

// Samples far enough apart that neither a vector store nor a processor's store buffer can swap
// them.
PEER(watch_ascent) {
    ClientEnd client({.arena_bytes = 8U << 20});
    client.request(link);
    const auto bytes = link.get<std::size_t>();
    const auto total = link.get<std::uint32_t>();
    std::byte* data = client.end.arena.take(bytes);
    link.put(Target{data, client.end.arena.handle(), bytes});
    const auto* words = reinterpret_cast<const std::uint32_t*>(data);
    constexpr std::size_t step = 65536 / 4;
    const std::size_t samples = bytes / 65536;
    for (std::uint32_t round = 1; round <= total; ++round) {
        bool finished = false;
        const auto deadline = Clock::now() + patience;
        while (!finished && Clock::now() < deadline) {
            // From the end to the beginning: whatever lies before a new sample must be new.
            std::size_t newest = samples;
            for (std::size_t i = samples; i-- > 0;) {
                const bool is_new = __atomic_load_n(words + i * step, __ATOMIC_ACQUIRE) == round;
                if (is_new && newest == samples) newest = i;
                if (newest != samples) {
                    ASSERT_TRUE(is_new) << "sample " << i << " is older than sample " << newest;
                }
            }
            finished = __atomic_load_n(words + bytes / 4 - 1, __ATOMIC_ACQUIRE) == round;
        }
        ASSERT_TRUE(finished);
        link.put(round);
    }
    link.meet();
}

TEST(RdmaOrder, DataIsPlacedAscending) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("watch_ascent");
    ServerEnd server({.arena_bytes = 8U << 20});
    server.accept(peer.link);
    const std::size_t bytes =
        std::min<std::size_t>(4U << 20, server.nic.attributes().MaxTransferSize) / 65536 * 65536;
    const auto total = static_cast<std::uint32_t>(rounds(20));
    peer.link.put(bytes);
    peer.link.put(total);
    const auto target = peer.link.get<Target>();
    std::byte* source = server.end.arena.take(bytes);
    VIP_DESCRIPTOR* write = server.end.arena.descriptor();
    for (std::uint32_t round = 1; round <= total; ++round) {
        auto* words = reinterpret_cast<std::uint32_t*>(source);
        std::fill(words, words + bytes / 4, round);
        const Segment from = server.end.arena.segment(source, bytes);
        fill_rdma(write, {target.data, target.handle}, {&from, 1}, VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, server.end.post_send(write));
        ASSERT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
        ASSERT_EQ(peer.link.get<std::uint32_t>(), round);
    }
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

// A flag written by its own small RDMA write after the data, as some programs do.
PEER(flag_after_data) {
    ClientEnd client({.arena_bytes = 4U << 20});
    client.request(link);
    const auto bytes = link.get<std::size_t>();
    const auto total = link.get<std::uint32_t>();
    std::byte* data = client.end.arena.take(bytes);
    auto* flag = reinterpret_cast<std::uint32_t*>(client.end.arena.take(64));
    link.put(Target{data, client.end.arena.handle(), bytes});
    link.put(Target{flag, client.end.arena.handle(), 4});
    for (std::uint32_t round = 1; round <= total; ++round) {
        ASSERT_TRUE(eventually([&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == round; }));
        ASSERT_TRUE(has_pattern(data, bytes, round));
        link.put(round);
    }
    link.meet();
}

TEST(RdmaOrder, TwoWritesArriveInTheirOrder) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("flag_after_data");
    ServerEnd server({.arena_bytes = 4U << 20});
    server.accept(peer.link);
    const std::size_t bytes = 40000;
    const auto total = static_cast<std::uint32_t>(rounds(200));
    peer.link.put(bytes);
    peer.link.put(total);
    const auto data = peer.link.get<Target>();
    const auto flag = peer.link.get<Target>();
    std::byte* source = server.end.arena.take(bytes);
    auto* flag_source = reinterpret_cast<std::uint32_t*>(server.end.arena.take(64));
    VIP_DESCRIPTOR* first = server.end.arena.descriptor();
    VIP_DESCRIPTOR* second = server.end.arena.descriptor();
    for (std::uint32_t round = 1; round <= total; ++round) {
        fill_pattern(source, bytes, round);
        *flag_source = round;
        const Segment from = server.end.arena.segment(source, bytes);
        const Segment from_flag = server.end.arena.segment(flag_source, 4);
        fill_rdma(first, {data.data, data.handle}, {&from, 1}, VIP_CONTROL_OP_RDMAWRITE);
        fill_rdma(second, {flag.data, flag.handle}, {&from_flag, 1}, VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, server.end.post_send(first));
        ASSERT_VIP(VIP_SUCCESS, server.end.post_send(second));
        ASSERT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
        ASSERT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
        ASSERT_EQ(peer.link.get<std::uint32_t>(), round);
    }
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

INSTANTIATE_EACH_LEVEL(RdmaWrite);

// ---- RDMA read ------------------------------------------------------------------------------

class RdmaRead : public EachLevel {
  protected:
    void SetUp() override {
        EachLevel::SetUp();
        if (IsSkipped()) return;
        const Nic nic;
        if (!nic.reads_at(level())) GTEST_SKIP() << "no RDMA read at " << level_name(level());
    }
};

TEST_P(RdmaRead, FetchesTheData) {
    Pair pair({.level = level(), .arena_bytes = 8U << 20});
    VIP_DESCRIPTOR* waiting = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(waiting));
    std::uint32_t seed = 90;
    for (const std::size_t size : rdma_sizes) {
        if (size > pair.client.nic.attributes().MaxTransferSize) continue;
        SCOPED_TRACE(size);
        std::byte* from = pair.server.arena.take(size + 8);
        std::byte* into = pair.client.arena.take(size + 64);
        std::memset(into, 0x74, size + 64);
        fill_pattern(from + 7, size, ++seed);
        VIP_DESCRIPTOR* read =
            pair.client.arena.rdma_read(into + 1, size, {from + 7, pair.server.arena.handle()});
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(read));
        const Completion done = pair.client.vi.await_send();
        ASSERT_VIP(VIP_SUCCESS, done.code);
        EXPECT_EQ(done.descriptor, read);
        EXPECT_EQ(done.status(), done_bit | VIP_STATUS_OP_RDMA_READ);
        EXPECT_EQ(done.length(), size);
        EXPECT_TRUE(has_pattern(into + 1, size, seed));
        EXPECT_TRUE(all_bytes_are(into + 1 + size, 60, std::byte{0x74}));
    }
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.server.vi, &head));
}

TEST_P(RdmaRead, ScattersUpToTheMaximumOfSegments) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    const auto most = static_cast<std::size_t>(pair.client.nic.attributes().MaxSegmentsPerDesc);
    for (const std::size_t piece : {1U, 13U, 200U}) {
        const std::size_t count = most - 1;
        std::byte* from = pair.server.arena.take(count * piece);
        fill_pattern(from, count * piece, 6);
        std::vector<Segment> segments;
        for (std::size_t i = 0; i < count; ++i) {
            segments.push_back(
                pair.client.arena.segment(pair.client.arena.take(piece + 5, 1), piece));
        }
        VIP_DESCRIPTOR* read = pair.client.arena.descriptor(most);
        fill_rdma(read, {from, pair.server.arena.handle()}, segments, VIP_CONTROL_OP_RDMAREAD);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(read));
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        std::vector<std::byte> collected;
        for (const Segment& segment : segments) {
            const auto* data = static_cast<const std::byte*>(segment.data);
            collected.insert(collected.end(), data, data + segment.bytes);
        }
        EXPECT_TRUE(has_pattern(collected.data(), collected.size(), 6));
    }
}

TEST_P(RdmaRead, IgnoresTheImmediateBit) {
    Pair pair(level());
    VIP_DESCRIPTOR* waiting = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(waiting));
    std::byte* from = pair.server.arena.take(100);
    std::byte* into = pair.client.arena.take(100);
    fill_pattern(from, 100, 7);
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.rdma_read(
                   into, 100, {from, pair.server.arena.handle()}, VIP_CONTROL_IMMEDIATE)));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_TRUE(has_pattern(into, 100, 7));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.server.vi, &head));
}

TEST_P(RdmaRead, IntoMemoryThatFailsProtectionIsAProtectionError) {
    Pair pair(level());
    std::byte* from = pair.server.arena.take(100);
    std::byte* into = pair.client.arena.take(100);
    std::memset(into, 0x75, 100);
    VIP_DESCRIPTOR* read = pair.client.arena.descriptor();
    const Segment segment{into, 0x12345678, 100};
    fill_rdma(read, {from, pair.server.arena.handle()}, {&segment, 1}, VIP_CONTROL_OP_RDMAREAD);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(read));
    const Completion done = pair.client.vi.await_send();
    EXPECT_EQ(done.errors(), static_cast<unsigned>(VIP_STATUS_PROTECTION_ERROR));
    EXPECT_TRUE(all_bytes_are(into, 100, std::byte{0x75}));
    EXPECT_TRUE(pair.both_break());
}

TEST_P(RdmaRead, AFencedSendCarriesWhatTheReadFetched) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    const std::size_t room = 60000;
    std::byte* from = pair.server.arena.take(room);
    std::byte* through = pair.client.arena.take(room);
    std::byte* back = pair.server.arena.take(room);
    VIP_DESCRIPTOR* read = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    for (std::uint32_t i = 0; i < rounds(100); ++i) {
        const std::size_t size = i % 5 == 0 ? room : 1 + i * 31 % 2000;
        fill_pattern(from, size, i);
        const Segment middle = pair.client.arena.segment(through, size);
        const Segment end = pair.server.arena.segment(back, size);
        fill_rdma(read, {from, pair.server.arena.handle()}, {&middle, 1}, VIP_CONTROL_OP_RDMAREAD);
        fill(send, {&middle, 1}, VIP_CONTROL_QFENCE);
        fill(receive, {&end, 1});
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(read));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
        ASSERT_TRUE(has_pattern(back, size, i)) << "the fenced send overtook the read";
        ASSERT_EQ(pair.client.vi.await_send().descriptor, read);
        ASSERT_EQ(pair.client.vi.await_send().descriptor, send);
    }
}

TEST_P(RdmaRead, AFencedWriteCarriesWhatTheReadsFetched) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    const std::size_t room = 20000;
    std::byte* from = pair.server.arena.take(2 * room);
    std::byte* through = pair.client.arena.take(2 * room);
    std::byte* back = pair.server.arena.take(2 * room);
    for (std::uint32_t i = 0; i < rounds(50); ++i) {
        fill_pattern(from, 2 * room, i);
        VIP_DESCRIPTOR* first =
            pair.client.arena.rdma_read(through, room, {from, pair.server.arena.handle()});
        VIP_DESCRIPTOR* second = pair.client.arena.rdma_read(
            through + room, room, {from + room, pair.server.arena.handle()});
        VIP_DESCRIPTOR* write = pair.client.arena.rdma_write(
            through, 2 * room, {back, pair.server.arena.handle()}, VIP_CONTROL_QFENCE);
        VIP_DESCRIPTOR* note = pair.client.arena.message(through, 0);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(from, 0)));
        for (VIP_DESCRIPTOR* descriptor : {first, second, write, note}) {
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(descriptor));
        }
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
        ASSERT_TRUE(has_pattern(back, 2 * room, i));
        for (VIP_DESCRIPTOR* expected : {first, second, write, note}) {
            const Completion done = pair.client.vi.await_send();
            ASSERT_VIP(VIP_SUCCESS, done.code);
            ASSERT_EQ(done.descriptor, expected);
        }
    }
}

TEST_P(RdmaRead, CompletionsStayInPostOrder) {
    Pair pair({.level = level(), .arena_bytes = 8U << 20});
    const std::size_t size = 50000;
    std::byte* remote = pair.server.arena.take(size);
    std::byte* local = pair.client.arena.take(size);
    std::vector<VIP_DESCRIPTOR*> posted;
    for (int i = 0; i < 40; ++i) {
        switch (i % 3) {
            case 0:
                posted.push_back(
                    pair.client.arena.rdma_read(local, size, {remote, pair.server.arena.handle()}));
                break;
            case 1:
                posted.push_back(
                    pair.client.arena.rdma_write(local, 8, {remote, pair.server.arena.handle()}));
                break;
            default:
                ASSERT_VIP(VIP_SUCCESS,
                           pair.server.post_recv(pair.server.arena.message(remote, 8)));
                posted.push_back(pair.client.arena.message(local, 8));
        }
    }
    for (VIP_DESCRIPTOR* descriptor : posted) {
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(descriptor));
    }
    for (VIP_DESCRIPTOR* expected : posted) {
        const Completion done = pair.client.vi.await_send();
        ASSERT_VIP(VIP_SUCCESS, done.code);
        ASSERT_EQ(done.descriptor, expected);
    }
}

PEER(idle_source) {
    ClientEnd client({.level = link.get<VIP_RELIABILITY_LEVEL>(), .arena_bytes = 4U << 20});
    client.request(link);
    const auto bytes = link.get<std::size_t>();
    std::byte* data = client.end.arena.take(bytes);
    fill_pattern(data, bytes, 77);
    link.put(Target{data, client.end.arena.handle(), bytes});
    // No VIPL call until the reader has everything.
    link.meet();
}

TEST_P(RdmaRead, FetchesFromAnIdleProcess) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("idle_source");
    peer.link.put(level());
    ServerEnd server({.level = level(), .arena_bytes = 4U << 20});
    server.accept(peer.link);
    const std::size_t bytes =
        std::min<std::size_t>(1U << 20, server.nic.attributes().MaxTransferSize);
    peer.link.put(bytes);
    const auto target = peer.link.get<Target>();
    std::byte* into = server.end.arena.take(bytes);
    for (const std::size_t size : {std::size_t{8}, std::size_t{1000}, bytes}) {
        std::memset(into, 0, bytes);
        ASSERT_VIP(VIP_SUCCESS, server.end.post_send(server.end.arena.rdma_read(
                                    into, size, {target.data, target.handle})));
        ASSERT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
        EXPECT_TRUE(has_pattern(into, size, 77));
    }
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

INSTANTIATE_EACH_LEVEL(RdmaRead);

TEST(RdmaReadAtUnreliable, IsRefused) {
    Pair pair(unreliable);
    std::byte* from = pair.server.arena.take(64);
    std::byte* into = pair.client.arena.take(64);
    fill_pattern(from, 64, 1);
    std::memset(into, 0x76, 64);
    VIP_DESCRIPTOR* read =
        pair.client.arena.rdma_read(into, 64, {from, pair.server.arena.handle()});
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(read));
    const Completion done = pair.client.vi.await_send();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, done.code);
    EXPECT_EQ(done.errors(), static_cast<unsigned>(VIP_STATUS_FORMAT_ERROR));
    EXPECT_TRUE(all_bytes_are(into, 64, std::byte{0x76}));
    EXPECT_TRUE(pair.both_connected());
    expect_traffic(pair);
}

TEST(Rdma, BothWaysAtOnce) {
    Pair pair({.arena_bytes = 8U << 20});
    const std::size_t size = 30000;
    std::byte* client_out = pair.client.arena.take(size);
    std::byte* client_in = pair.client.arena.take(size);
    std::byte* server_out = pair.server.arena.take(size);
    std::byte* server_in = pair.server.arena.take(size);
    for (std::uint32_t i = 0; i < 20; ++i) {
        fill_pattern(client_out, size, i);
        fill_pattern(server_out, size, 1000 + i);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                    client_out, size, {server_in, pair.server.arena.handle()})));
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_send(pair.server.arena.rdma_write(
                                    server_out, size, {client_in, pair.client.arena.handle()})));
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_send().code);
        EXPECT_TRUE(comes_to_show_pattern(server_in, size, i));
        EXPECT_TRUE(comes_to_show_pattern(client_in, size, 1000 + i));
    }
}

}  // namespace
}  // namespace via::test
