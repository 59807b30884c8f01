// SPDX-License-Identifier: BSD-3-Clause
// Well-formed frames that lie about messages: where their bytes are, how many they are, and which
// of the victim's have arrived.
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "na/shm/noting_sink.hpp"
#include "na/shm/shm_hostile.hpp"

using namespace via;
using namespace via::test;
using na::shm::FrameKind;

namespace {

TEST_P(ShmHostile, ChunksOutOfOrderEndTheConnection) {
    using na::shm::RingChunk;
    const std::uint16_t behind = line_behind();
    const auto last = static_cast<std::uint16_t>(behind - 1);
    const struct {
        const char* what;
        std::vector<FrameKind> kinds;
        RingChunk chunk;
        std::uint32_t total;
        std::uint8_t flags;
    } cases[] = {
        {"next without first", {FrameKind::Next}, {0, 64}, 64, na::shm::frame_final},
        {"first inside a message", {FrameKind::First, FrameKind::First}, {0, 64}, 1000, 0},
        {"no bytes", {FrameKind::First}, {0, 0}, 64, 0},
        {"no bytes of none", {FrameKind::First}, {0, 0}, 0, na::shm::frame_final},
        {"behind the ring", {FrameKind::First}, {behind, 64}, 64, na::shm::frame_final},
        {"far behind the ring", {FrameKind::First}, {0xFFFF, 64}, 64, na::shm::frame_final},
        {"over the end", {FrameKind::First}, {last, 65}, 65, na::shm::frame_final},
        {"far over the end", {FrameKind::First}, {last, 0xFFFF}, 0xFFFF, na::shm::frame_final},
        {"more than the message", {FrameKind::First}, {0, 65}, 64, 0},
        {"more than the message in the end", {FrameKind::First, FrameKind::Next}, {0, 64}, 100, 0},
        {"next outside", {FrameKind::First, FrameKind::Next}, {last, 64}, 128, 0},
        {"ends too early", {FrameKind::First}, {0, 64}, 65, na::shm::frame_final},
        {"does not end", {FrameKind::First}, {0, 64}, 64, 0},
    };
    for (const auto& bad : cases) {
        SCOPED_TRACE(bad.what);
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const TestMemory target(process, 100);
        other.post_receive({target.pd()});
        other.post_receive({target.pd()});
        RingChunk chunk = bad.chunk;
        for (const FrameKind kind : bad.kinds) {
            ASSERT_TRUE(liar.send_notice(kind, ChunkNotice{chunk, bad.total}, bad.flags));
            if (bad.chunk.line == last) ++chunk.line;
        }
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ(other.take_events() & violation, violation);
        EXPECT_FALSE(other.receive_done());
    }
}

TEST_P(ShmHostile, AMessageInsideAnotherEndsTheConnection) {
    const TestMemory target(process, 1000);
    vi.post_receive({target.pd()});
    vi.post_receive({target.pd()});
    ASSERT_TRUE(peer.send_notice(FrameKind::First, ChunkNotice{put_in_ring(64), 1000}));
    ASSERT_TRUE(peer.send(FrameKind::Inline, {}));
    expect_violation();
}

TEST_P(ShmHostile, MalformedReferencesEndTheConnection) {
    using Segments = std::vector<na::PhysicalDescriptor>;
    const auto attempt = [&](std::uint32_t total, std::uint32_t count,
                             std::span<const std::byte> list) {
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        EXPECT_TRUE(liar.connect());
        const TestMemory target(process, 100);
        other.post_receive({target.pd()});
        std::array<std::byte, na::shm::max_inline_bytes> payload{};
        std::memcpy(payload.data(), &total, 4);
        std::memcpy(payload.data() + 4, &count, 4);
        if (!list.empty()) std::memcpy(payload.data() + 8, list.data(), list.size());
        // A list in the ring would be there, and would add up to nothing.
        const std::array<std::byte, 512> zeros{};
        EXPECT_TRUE(liar.put_in_ring(std::span(zeros).first(256)));
        EXPECT_TRUE(liar.send(FrameKind::Reference, std::span(payload).first(8 + list.size())));
        for (int i = 0; i < 10; ++i)
            other.poll();
        const bool broken = (other.take_events() & violation) != 0;
        EXPECT_EQ(other.receive_done().has_value(), !broken);
        return broken;
    };
    const auto inside = [&](std::uint32_t total, std::uint32_t count, const Segments& segments) {
        return attempt(total, count, std::as_bytes(std::span(segments)));
    };
    const auto in_ring = [&](std::uint32_t total, std::uint32_t count, na::shm::RingChunk chunk) {
        return attempt(total, count, std::as_bytes(std::span(&chunk, 1)));
    };
    const na::PhysicalDescriptor ten{4096, 10, 1};
    EXPECT_TRUE(inside(10, 0, {})) << "no segments";
    EXPECT_TRUE(inside(10, 2, {ten})) << "fewer than said";
    EXPECT_TRUE(inside(10, 1, {ten, ten})) << "more than said";
    EXPECT_TRUE(inside(11, 1, {ten})) << "they do not add up";
    EXPECT_TRUE(inside(4, 2, {{0, 0xFFFFFFFF, 1}, {0, 5, 1}})) << "they add up mod 2^32";
    EXPECT_FALSE(in_ring(0, 3, {0, 48})) << "well-formed";
    EXPECT_TRUE(in_ring(1, 3, {0, 48})) << "the listed do not add up";
    EXPECT_TRUE(in_ring(0, 3, {0, 47})) << "a list too short";
    EXPECT_TRUE(in_ring(0, 3, {0, 64})) << "a list too long";
    EXPECT_TRUE(in_ring(0, 3, {0, 0})) << "no list";
    EXPECT_TRUE(in_ring(0, 3, {line_behind(), 48})) << "a list behind the ring";
    EXPECT_TRUE(in_ring(0, 5, {static_cast<std::uint16_t>(line_behind() - 1), 80}))
        << "a list over the end of the ring";
    EXPECT_TRUE(in_ring(0, 253, {0, 253 * 16})) << "too many";
    EXPECT_TRUE(in_ring(10, 0x10000001, {0, 16})) << "times 16 it is 16";
    EXPECT_TRUE(in_ring(10, 0xFFFFFFFF, {0, 0xFFF0}));
}

// An address that is not there: the message is lost, the connection at the level that allows it
// not.
TEST_P(ShmHostile, AReferenceThatLeadsNowhereIsAnErrorOfThatMessage) {
    const TestMemory target(process, 100);
    vi.post_receive({target.pd()});
    ASSERT_TRUE(peer.send_notice(FrameKind::Reference, ReferenceNotice{100, 1, {64, 100, 0}}));
    poll();
    const auto received = vi.receive_done();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->errors(), na::status_transport);
    EXPECT_EQ(vi.take_events(), 0U);
    vi.post_receive({target.pd()});
    ASSERT_TRUE(peer.send(FrameKind::Inline, {}));
    poll();
    EXPECT_EQ(vi.receive_done().has_value(), GetParam() == na::unreliable);
}

TEST_P(ShmHostile, AReferenceReachesNothingOfTheVictim) {
    // The handle of the victim's own region, and addresses in it: they are looked up in the peer's
    // table and read from the peer's process. Here that is the same process, so only a handle that
    // is not the peer's is left to try on the mapping path.
    const TestMemory secret(process, 4096, TestMemory::Kind::Kmem);
    const TestMemory target(process, 4096);
    vi.post_receive({target.pd()});
    const int asked = process.client.arenas_asked;
    ASSERT_TRUE(peer.send_notice(FrameKind::Reference,
                                 ReferenceNotice{4096, 1, {64, 4096, secret.handle()}}));
    poll();
    EXPECT_EQ(process.client.arenas_asked, asked);
    const auto received = vi.receive_done();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->errors(), na::status_transport);
}

TEST_P(ShmHostile, AcknowledgingWhatWasNotSentEndsTheConnection) {
    for (const std::uint32_t count : {1U, 2U, 0xFFFFFFFFU}) {
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        ASSERT_TRUE(liar.send(FrameKind::Acknowledge, {}, 0, count));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ(other.take_events() & violation, violation);
    }
    ASSERT_TRUE(
        peer.send_words(FrameKind::Acknowledge, {na::status_remote_descriptor}, 0, 0xFFFFFFFF));
    expect_violation();
}

TEST_P(ShmHostile, AcknowledgingTwiceEndsTheConnection) {
    if (!reception()) GTEST_SKIP() << "nothing is acknowledged on this level";
    const TestMemory source(process, 100);
    vi.post_send({source.pd(0, 8)});
    ASSERT_TRUE(peer.send(FrameKind::Acknowledge, {}, 0, 1));
    poll();
    const auto sent = vi.send_done();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->errors(), 0U);
    ASSERT_TRUE(peer.send(FrameKind::Acknowledge, {}, 0, 1));
    expect_violation();
}

TEST_P(ShmHostile, AFailureIsNeverMoreThanAFailure) {
    if (!reception()) GTEST_SKIP() << "nothing is acknowledged on this level";
    const TestMemory source(process, 100);
    vi.post_send({source.pd(0, 8)});
    // All bits, of which only the error bits mean something here.
    ASSERT_TRUE(peer.send_words(FrameKind::Acknowledge, {0xFFFFFFFF}, 0, 0));
    poll();
    const auto sent = vi.send_done();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->status, na::status_done | na::status_error_mask);
}

/// A sink is shown nothing that does not lie in the channel, and nothing out of turn.
TEST_P(ShmHostile, ASinkSeesNoLies) {
    const std::array<std::byte, 100> bytes{};
    const auto ring = geometry().ring_bytes();
    const auto last_line = static_cast<std::uint16_t>(ring / base::cache_line - 1);
    const std::vector<std::function<void(RawPeer&, na::shm::RingChunk)>> lies{
        [&](RawPeer& liar, na::shm::RingChunk) {
            const na::shm::RingChunk outside{last_line, 1000};
            liar.send_notice(FrameKind::First, ChunkNotice{outside, 1000}, na::shm::frame_final);
        },
        [](RawPeer& liar, na::shm::RingChunk) {
            liar.send_notice(FrameKind::First, ChunkNotice{{}, 0}, na::shm::frame_final);
        },
        [](RawPeer& liar, na::shm::RingChunk chunk) {
            liar.send_notice(FrameKind::First, ChunkNotice{chunk, 99}, na::shm::frame_final);
        },
        [](RawPeer& liar, na::shm::RingChunk chunk) {
            liar.send_notice(FrameKind::First, ChunkNotice{chunk, 101}, na::shm::frame_final);
        },
        [](RawPeer& liar, na::shm::RingChunk) {
            liar.send_words(FrameKind::First, {1}, na::shm::frame_final);
        },
        [](RawPeer& liar, na::shm::RingChunk chunk) {
            liar.send_notice(FrameKind::First, ChunkNotice{chunk, 200});
            liar.send_words(FrameKind::Inline, {1});
        },
        [](RawPeer& liar, na::shm::RingChunk chunk) {
            liar.send_notice(FrameKind::First, ChunkNotice{chunk, 200});
            liar.send_notice(FrameKind::First, ChunkNotice{chunk, 100}, na::shm::frame_final);
        },
    };
    for (std::size_t i = 0; i < lies.size(); ++i) {
        SCOPED_TRACE(i);
        TestVi other(process, GetParam());
        NotingSink sink;
        other.queues.sink = &sink;
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const TestMemory memory(process, 1000);
        other.post_receive({memory.pd()});
        // The truth first.
        ASSERT_TRUE(liar.send_words(FrameKind::Inline, {1, 2, 3}));
        const auto chunk = liar.put_in_ring(bytes);
        ASSERT_TRUE(chunk);
        ASSERT_TRUE(
            liar.send_notice(FrameKind::First, ChunkNotice{*chunk, 100}, na::shm::frame_final));
        for (int n = 0; n < 4; ++n)
            other.poll();
        ASSERT_EQ(sink.messages.size(), 2U);
        const auto next = liar.put_in_ring(bytes);
        ASSERT_TRUE(next);
        lies[i](liar, *next);
        for (int n = 0; n < 4; ++n)
            other.poll();
        EXPECT_EQ(sink.shown, 2);
        EXPECT_EQ(other.take_events() & violation, violation);
    }
}

}  // namespace
