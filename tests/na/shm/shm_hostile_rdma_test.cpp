// SPDX-License-Identifier: BSD-3-Clause
// RDMA that a hostile peer asks for, and answers to the victim's own: neither reaches more than was
// granted or asked for.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "na/seeded.hpp"
#include "na/shm/guarded_memory.hpp"
#include "na/shm/shm_hostile.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;
using na::shm::FrameKind;

namespace {

TEST_P(ShmHostile, ReadDataThatNobodyAskedForEndsTheConnection) {
    ASSERT_TRUE(peer.send_notice(FrameKind::RdmaReadData, ReadDataNotice{put_in_ring(64), 0}));
    expect_violation();
}

TEST_P(ShmHostile, AnswersToAReadReachOnlyWhatWasAskedFor) {
    const na::shm::AllowedPaths& allowed = process.nic->settings().allowed;
    if (allowed.cma || allowed.kmem) GTEST_SKIP() << "reads ask nobody in this run";
    using na::shm::RingChunk;
    const std::uint16_t behind = line_behind();
    const struct {
        const char* what;
        RingChunk chunk;
        std::uint32_t failure;
        std::uint32_t number;
        bool wrong;
    } cases[] = {
        {"as asked", {0, 100}, 0, 0, false},
        {"a part", {0, 99}, 0, 0, false},
        {"refused", {0, 0}, na::status_rdma_protection, 0, false},
        {"longer", {0, 101}, 0, 0, true},
        {"much longer", {0, 1000}, 0, 0, true},
        {"nothing", {0, 0}, 0, 0, true},
        {"behind the ring", {behind, 100}, 0, 0, true},
        {"over the end", {static_cast<std::uint16_t>(behind - 1), 100}, 0, 0, true},
        {"behind the ring and refused", {behind, 1}, na::status_rdma_protection, 0, true},
        {"another read", {0, 100}, 0, 1, true},
    };
    std::vector<std::byte> theirs(100);
    for (const auto& answer : cases) {
        SCOPED_TRACE(answer.what);
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const auto remote =
            liar.client.register_memory(theirs.data(), theirs.size(), 1, ka::right_rdma_read);
        ASSERT_TRUE(remote);
        const TestMemory own(process, 300);
        fill_pattern(own.span(), 1);
        std::array<std::byte, 64> data;
        data.fill(std::byte{0xEE});
        ASSERT_TRUE(liar.put_in_ring(data) && liar.put_in_ring(data));
        other.post_rdma(na::Operation::RdmaRead,
                        {reinterpret_cast<std::uint64_t>(theirs.data()), 0, remote.value()},
                        {own.pd(100, 60), own.pd(180, 40)});
        na::shm::FrameHeader request;
        ASSERT_EQ(liar.reader->look(request), na::shm::ChannelReader::Look::Frame);
        ASSERT_EQ(request.kind, FrameKind::RdmaReadRequest);
        ASSERT_EQ(request.length, sizeof(ReadRequestNotice));
        ASSERT_TRUE(liar.send_notice(FrameKind::RdmaReadData,
                                     ReadDataNotice{answer.chunk, answer.failure}, 0,
                                     request.argument + answer.number));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ((other.take_events() & violation) != 0, answer.wrong);
        const auto done = other.send_done();
        EXPECT_EQ(done.has_value(), !answer.wrong && answer.chunk.bytes != 99);
        if (done) {
            EXPECT_EQ(done->errors(), answer.failure);
        }
        // Around the segments and where nothing came, all is as it was.
        const std::size_t came = answer.wrong ? 0 : answer.chunk.bytes;
        for (std::size_t i = 0; i < own.size(); ++i) {
            const bool asked = (i >= 100 && i - 100 < std::min<std::size_t>(came, 60)) ||
                               (i >= 180 && i - 180 + 60 < came);
            ASSERT_EQ(own.data()[i], asked ? std::byte{0xEE} : pattern_byte(1, i)) << i;
        }
    }
}

TEST_P(ShmHostile, TooManyReadRequestsEndTheConnection) {
    // The victim's answers find no room, because nobody takes them away.
    const TestMemory memory(process, 1 << 20);
    const ReadRequestNotice request{reinterpret_cast<std::uint64_t>(memory.data()), memory.handle(),
                                    1 << 20};
    std::uint32_t events = 0;
    for (int i = 0; i < 200 && events == 0; ++i) {
        peer.send_notice(FrameKind::RdmaReadRequest, request);
        vi.poll();
        events = vi.take_events();
    }
    EXPECT_EQ(events & violation, violation);
}

TEST_P(ShmHostile, ReadsAndWritesThroughTheRingReachOnlyWhatWasGranted) {
    struct Attempt {
        const char* why;
        std::int64_t offset;
        std::uint32_t bytes;
        std::uint32_t rights;
        ka::ProtectionTag tag;
        std::uint32_t handle_change;
        bool allowed;
    };
    constexpr std::uint32_t both = ka::right_rdma_read | ka::right_rdma_write;
    const Attempt attempts[] = {
        {"as granted", 0, 256, both, 1, 0, true},
        {"as granted, the end", 744, 256, both, 1, 0, true},
        {"no right", 0, 256, 0, 1, 0, false},
        {"other tag", 0, 256, both, 2, 0, false},
        {"before it", -1, 256, both, 1, 0, false},
        {"behind it", 745, 256, both, 1, 0, false},
        {"far away", 1LL << 45, 256, both, 1, 0, false},
        {"another handle", 0, 256, both, 1, 0x10000, false},
        {"a handle of nothing", 0, 256, both, 1, 0x7777, false},
    };
    for (const Attempt& attempt : attempts) {
        SCOPED_TRACE(attempt.why);
        const GuardedMemory memory(1024);
        fill_pattern(memory.span(), 1);
        std::byte* region = memory.data() + 24;
        const auto handle =
            process.client.register_memory(region, 1000, attempt.tag, attempt.rights);
        ASSERT_TRUE(handle);
        const std::uint64_t address =
            reinterpret_cast<std::uint64_t>(region) + static_cast<std::uint64_t>(attempt.offset);
        const std::uint32_t lie = handle.value() ^ attempt.handle_change;
        {
            TestVi other(process, GetParam());
            RawPeer liar(host, other);
            ASSERT_TRUE(liar.connect());
            std::vector<std::byte> data(attempt.bytes);
            fill_pattern(data, 2);
            const auto chunk = liar.put_in_ring(data);
            ASSERT_TRUE(chunk);
            RdmaChunkNotice notice{{}, lie, attempt.bytes, *chunk};
            notice.aim_at(reinterpret_cast<const void*>(address));
            ASSERT_TRUE(liar.send_notice(FrameKind::RdmaWriteFirst, notice, na::shm::frame_final));
            for (int i = 0; i < 10; ++i)
                other.poll();
            if (attempt.allowed) {
                const auto offset = static_cast<std::size_t>(attempt.offset);
                EXPECT_EQ(matching_bytes({region + offset, attempt.bytes}, 2), attempt.bytes);
                EXPECT_EQ(other.take_events(), 0U);
                fill_pattern(memory.span(), 1);
            } else {
                EXPECT_EQ(other.take_events(),
                          static_cast<std::uint32_t>(EndpointEvent::RdmaWriteRefused));
            }
            EXPECT_EQ(matching_bytes(memory.span(), 1), memory.size());
        }
        {
            TestVi other(process, GetParam());
            RawPeer liar(host, other);
            ASSERT_TRUE(liar.connect());
            ASSERT_TRUE(liar.send_notice(FrameKind::RdmaReadRequest,
                                         ReadRequestNotice{address, lie, attempt.bytes}, 0, 42));
            for (int i = 0; i < 10; ++i)
                other.poll();
            na::shm::FrameHeader frame;
            ASSERT_EQ(liar.reader->look(frame), na::shm::ChannelReader::Look::Frame);
            EXPECT_EQ(frame.kind, FrameKind::RdmaReadData);
            EXPECT_EQ(frame.argument, 42U);
            ReadDataNotice answer;
            ASSERT_EQ(frame.length, sizeof answer);
            liar.reader->read_payload(reinterpret_cast<std::byte*>(&answer), sizeof answer);
            EXPECT_EQ(answer.failure, attempt.allowed ? 0 : na::status_rdma_protection);
            if (attempt.allowed) {
                ASSERT_EQ(answer.chunk.bytes, attempt.bytes);
                const std::byte* data = liar.reader->chunk(answer.chunk);
                ASSERT_NE(data, nullptr);
                const auto first = static_cast<std::uint64_t>(24 + attempt.offset);
                EXPECT_EQ(matching_bytes({data, attempt.bytes}, 1, first), attempt.bytes);
            } else {
                EXPECT_EQ(answer.chunk.bytes, 0U);
                EXPECT_EQ(other.take_events(),
                          static_cast<std::uint32_t>(EndpointEvent::RdmaReadRefused));
            }
            // Nothing of the victim's memory stands in the ring.
            const std::span<std::byte> ring(liar.from_victim().ring,
                                            liar.from_victim().geometry.ring_bytes());
            std::size_t used = 0;
            for (const std::byte byte : ring)
                used += byte != std::byte{};
            EXPECT_EQ(used != 0, attempt.allowed);
        }
        ASSERT_TRUE(process.client.deregister_memory(handle.value()));
    }
}

TEST_P(ShmHostile, AWriteLongerThanItSaidEndsTheConnection) {
    const TestMemory memory(process, 4096);
    fill_pattern(memory.span(), 1);
    RdmaChunkNotice notice{{}, memory.handle(), 100, put_in_ring(64)};
    notice.aim_at(memory.data());
    ASSERT_TRUE(peer.send_notice(FrameKind::RdmaWriteFirst, notice));
    notice.chunk = put_in_ring(64);
    ASSERT_TRUE(peer.send_notice(FrameKind::RdmaWriteNext, notice));
    expect_violation();
    EXPECT_EQ(matching_bytes(memory.span().subspan(64), 1, 64), memory.size() - 64);
}

TEST_P(ShmHostile, AWriteFromOutsideTheRingEndsTheConnection) {
    using na::shm::RingChunk;
    const std::uint16_t behind = line_behind();
    for (const RingChunk chunk : {RingChunk{0, 0}, RingChunk{behind, 64}, RingChunk{0xFFFF, 64},
                                  RingChunk{static_cast<std::uint16_t>(behind - 1), 65}}) {
        SCOPED_TRACE(std::to_string(chunk.bytes) + " bytes in line " + std::to_string(chunk.line));
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const TestMemory memory(process, 4096);
        fill_pattern(memory.span(), 1);
        RdmaChunkNotice notice{{}, memory.handle(), std::max<std::uint32_t>(chunk.bytes, 1), chunk};
        notice.aim_at(memory.data());
        ASSERT_TRUE(liar.send_notice(FrameKind::RdmaWriteFirst, notice, na::shm::frame_final));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ(other.take_events() & violation, violation);
        EXPECT_EQ(matching_bytes(memory.span(), 1), memory.size());
    }
}

TEST_P(ShmHostile, AWriteThatMovesOnTheWayStaysWhereItBegan) {
    const TestMemory granted(process, 128);
    const TestMemory other_region(process, 128);
    fill_pattern(other_region.span(), 1);
    fill_pattern(granted.span(), 1);
    RdmaChunkNotice notice{{}, granted.handle(), 128, put_in_ring(64)};
    notice.aim_at(granted.data());
    ASSERT_TRUE(peer.send_notice(FrameKind::RdmaWriteFirst, notice));
    notice.aim_at(other_region.data());
    notice.handle = other_region.handle();
    notice.total = 4096;
    notice.chunk = put_in_ring(64);
    ASSERT_TRUE(peer.send_notice(FrameKind::RdmaWriteNext, notice));
    poll();
    for (const std::byte byte : granted.span())
        EXPECT_EQ(byte, std::byte{});
    EXPECT_EQ(vi.take_events(), 0U);
    EXPECT_EQ(matching_bytes(other_region.span(), 1), other_region.size());
}

}  // namespace
