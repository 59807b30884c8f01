// SPDX-License-Identifier: BSD-3-Clause
// A peer that writes what it likes into the channel. Whatever it does, the endpoint neither reads
// nor writes outside what was granted, ends what it can not understand, and keeps its own state.
#include <malloc.h>

#include <array>
#include <bit>
#include <cstring>

#include "na/shm/guarded_memory.hpp"
#include "na/shm/noting_sink.hpp"
#include "na/shm/shm_pair.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;
using na::shm::FrameKind;

namespace {

constexpr std::uint32_t violation = static_cast<std::uint32_t>(EndpointEvent::ProtocolViolation);

class ShmHostile : public testing::TestWithParam<std::uint32_t> {
  protected:
    void SetUp() override { ASSERT_TRUE(peer.connect()); }
    [[nodiscard]] bool reception() const { return GetParam() == na::reliable_reception; }
    void poll(int times = 100) {
        for (int i = 0; i < times; ++i)
            vi.poll();
    }
    /// The victim has seen it, and nothing that comes later is handled.
    void expect_violation() {
        poll();
        EXPECT_EQ(vi.take_events() & violation, violation);
        const TestMemory target(process, 100);
        vi.post_receive({target.pd()});
        peer.send(FrameKind::Inline, {});
        poll();
        EXPECT_FALSE(vi.receive_done());
    }
    [[nodiscard]] na::shm::RingChunk put_in_ring(std::uint32_t bytes) {
        const std::vector<std::byte> data(bytes);
        return peer.put_in_ring(data).value();
    }
    [[nodiscard]] const na::shm::Geometry& geometry() { return process.nic->settings().geometry; }
    /// One line behind the byte ring.
    [[nodiscard]] std::uint16_t line_behind() {
        return static_cast<std::uint16_t>(geometry().ring_bytes() / 64);
    }

    TestHost host;
    TestProcess process{host};
    TestVi vi{process, GetParam()};
    RawPeer peer{host, vi};
};

TEST_P(ShmHostile, HonestFramesWork) {
    const TestMemory target(process, 100);
    vi.post_receive({target.pd()});
    std::array<std::byte, 20> payload;
    fill_pattern(payload, 4);
    ASSERT_TRUE(peer.send(FrameKind::Inline, payload, na::shm::frame_immediate, 77));
    poll(1);
    const auto received = vi.receive_done();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->length, 20U);
    EXPECT_EQ(received->immediate, 77U);
    EXPECT_EQ(matching_bytes(target.span().first(20), 4), 20U);
    EXPECT_EQ(vi.take_events(), 0U);
}

TEST_P(ShmHostile, GeometryIsChecked) {
    const auto attempt = [&](std::uint32_t lines, std::uint32_t bytes) {
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        liar.client.tweak = [&](ka::DeviceParameters& parameters) {
            std::memcpy(parameters.data() + 4, &lines, 4);
            std::memcpy(parameters.data() + 8, &bytes, 4);
        };
        const auto outcome = liar.connect(true);
        EXPECT_FALSE(other.poll());
        return outcome.ok();
    };
    const na::shm::Geometry real = process.nic->settings().geometry;
    EXPECT_TRUE(attempt(real.frame_lines, real.direction_bytes));
    EXPECT_FALSE(attempt(0, real.direction_bytes));
    EXPECT_FALSE(attempt(real.frame_lines + 1, real.direction_bytes));
    EXPECT_FALSE(attempt(1U << 31, real.direction_bytes));
    EXPECT_FALSE(attempt(real.frame_lines, real.direction_bytes + 64)) << "beyond the channel";
    EXPECT_FALSE(attempt(real.frame_lines, 0));
    EXPECT_FALSE(attempt(real.frame_lines, 0xFFFFFFC0U));
    EXPECT_FALSE(attempt(std::bit_ceil(real.direction_bytes) / 64, real.direction_bytes));
}

TEST_P(ShmHostile, AnotherFormatIsRefused) {
    TestVi other(process, GetParam());
    RawPeer stranger(host, other);
    stranger.client.tweak = [](ka::DeviceParameters& parameters) { parameters[0] ^= 1; };
    const auto outcome = stranger.connect();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, base::Code::NotSupported);
}

// ---- Frames that nobody honest sends ----------------------------------------------------------

TEST_P(ShmHostile, UnknownKindsEndTheConnection) {
    for (auto kind = static_cast<unsigned>(FrameKind::Last) + 1; kind < 32; ++kind) {
        SCOPED_TRACE(kind);
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        liar.towards_victim().lines[0].cells[0].header.store(
            na::shm::encode({static_cast<FrameKind>(kind), 1, 0, 0, 0}, true));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ(other.take_events() & violation, violation);
    }
    // A further cell where a frame should begin.
    peer.towards_victim().lines[0].cells[0].header.store(
        na::shm::encode_tag(FrameKind::Continuation, 1, true));
    expect_violation();
}

TEST_P(ShmHostile, PadsThatNobodyWritesEndTheConnection) {
    const struct {
        std::uint32_t cell;
        std::uint8_t cells;
    } cases[] = {{0, 1}, {0, 4}, {1, 2}, {1, 3}, {2, 2}};
    for (const auto& bad : cases) {
        SCOPED_TRACE(std::to_string(bad.cells) + " cells from " + std::to_string(bad.cell));
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        for (std::uint32_t i = 0; i < bad.cell; ++i)
            ASSERT_TRUE(liar.send(FrameKind::Acknowledge, {}));
        for (std::uint32_t i = bad.cell; i < na::shm::line_cells; ++i)
            liar.towards_victim().lines[0].cells[i].header.store(
                na::shm::encode({FrameKind::Pad, bad.cells, 0, 0, 0}, true));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ(other.take_events() & violation, violation);
    }
}

// What looks like a frame of several cells is none as long as one of them is missing.
TEST_P(ShmHostile, AFrameThatIsNotAllThereIsNotDelivered) {
    const TestMemory target(process, 100);
    vi.post_receive({target.pd()});
    std::array<std::byte, na::shm::max_inline_bytes> payload;
    fill_pattern(payload, 4);
    ASSERT_TRUE(peer.send(FrameKind::Inline, payload));
    auto& last = peer.towards_victim().lines[0].cells[na::shm::line_cells - 1].header;
    const std::uint64_t word = last.exchange(0);
    for (const std::uint64_t lie :
         {std::uint64_t{0}, word ^ std::uint64_t{0x20} << na::shm::tag_shift,
          na::shm::encode({FrameKind::Inline, 1, 0, 0, 0}, true)}) {
        last.store(lie);
        poll();
        EXPECT_FALSE(vi.receive_done());
    }
    EXPECT_EQ(vi.take_events(), 0U);
    last.store(word);
    poll();
    const auto received = vi.receive_done();
    ASSERT_TRUE(received);
    EXPECT_EQ(received->length, payload.size());
    EXPECT_EQ(matching_bytes(target.span().first(payload.size()), 4), payload.size());
}

TEST_P(ShmHostile, AFrameThatIsNeverCompletedDoesNotHideTheEnd) {
    const std::array<std::byte, na::shm::max_inline_bytes> payload{};
    ASSERT_TRUE(peer.send(FrameKind::Inline, payload));
    peer.towards_victim().lines[0].cells[2].header.store(0);
    poll();
    EXPECT_EQ(vi.take_events(), 0U);
    peer.writer->control().producer.state.store(
        static_cast<std::uint32_t>(na::shm::EndState::Closed));
    poll(200);
    EXPECT_EQ(vi.take_events(), static_cast<std::uint32_t>(EndpointEvent::PeerDisconnected));
}

TEST_P(ShmHostile, FramesBeyondTheirLineEndTheConnection) {
    ASSERT_TRUE(peer.send(FrameKind::Acknowledge, {}));  // takes the first cell
    peer.towards_victim().lines[0].cells[1].header.store(
        na::shm::encode({FrameKind::Inline, 4, 0, 8, 0}, true));
    expect_violation();
}

TEST_P(ShmHostile, LengthsBeyondTheirCellsEndTheConnection) {
    peer.towards_victim().lines[0].cells[0].header.store(
        na::shm::encode({FrameKind::Inline, 4, 0, 0xFFFF, 0}, true));
    expect_violation();
}

TEST_P(ShmHostile, ShortFramesEndTheConnection) {
    for (const FrameKind kind :
         {FrameKind::First, FrameKind::Next, FrameKind::Reference, FrameKind::RdmaDone,
          FrameKind::RdmaWriteFirst, FrameKind::RdmaWriteNext, FrameKind::RdmaReadRequest,
          FrameKind::RdmaReadData}) {
        SCOPED_TRACE(static_cast<int>(kind));
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        ASSERT_TRUE(liar.send_words(kind, {1}));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_EQ(other.take_events() & violation, violation);
    }
}

TEST_P(ShmHostile, FramesOfAnotherLengthThanTheirNoticeEndTheConnection) {
    const struct {
        FrameKind kind;
        std::size_t length;
    } notices[] = {
        {FrameKind::First, sizeof(ChunkNotice)},
        {FrameKind::Reference, sizeof(ReferenceNotice)},
        {FrameKind::RdmaWriteFirst, sizeof(RdmaChunkNotice)},
        {FrameKind::RdmaReadRequest, sizeof(ReadRequestNotice)},
    };
    for (const auto& notice : notices)
        for (std::size_t length = 0; length <= na::shm::max_inline_bytes; ++length) {
            SCOPED_TRACE(std::to_string(static_cast<int>(notice.kind)) + " of " +
                         std::to_string(length) + " bytes");
            TestVi other(process, GetParam());
            RawPeer liar(host, other);
            ASSERT_TRUE(liar.connect());
            const TestMemory memory(process, 4096);
            other.post_receive({memory.pd()});
            // As good as it can be but for its length.
            std::array<std::byte, na::shm::max_inline_bytes> payload{};
            const std::array<std::byte, 64> data{};
            const na::shm::RingChunk chunk = liar.put_in_ring(data).value();
            const auto put = [&](const auto& good) {
                std::memcpy(payload.data(), &good, sizeof good);
            };
            RdmaChunkNotice write{{}, memory.handle(), 64, chunk};
            write.aim_at(memory.data());
            if (notice.kind == FrameKind::First) put(ChunkNotice{chunk, 64});
            if (notice.kind == FrameKind::Reference) put(ReferenceNotice{64, 1, {0, 64, 0}});
            if (notice.kind == FrameKind::RdmaWriteFirst) put(write);
            if (notice.kind == FrameKind::RdmaReadRequest)
                put(ReadRequestNotice{reinterpret_cast<std::uint64_t>(memory.data()),
                                      memory.handle(), 64});
            ASSERT_TRUE(
                liar.send(notice.kind, std::span(payload).first(length), na::shm::frame_final));
            for (int i = 0; i < 10; ++i)
                other.poll();
            EXPECT_EQ((other.take_events() & violation) != 0, length != notice.length);
        }
}

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

// ---- Floods -----------------------------------------------------------------------------------

TEST_P(ShmHostile, AnswersToOffersThatWereNotMadeEndTheConnection) {
    ASSERT_TRUE(peer.send(FrameKind::ArenaMapped, {}, 0, 12345));
    expect_violation();
}

TEST_P(ShmHostile, OffersOfManyArenasDoNotKeepTheAgentBusy) {
    if (!process.nic->settings().allowed.kmem) GTEST_SKIP() << "arenas are not mapped in this run";
    for (std::uint32_t i = 0; i < 20000; ++i) {
        while (!peer.send(FrameKind::ArenaOffer, {}, 0, 100 + i))
            vi.poll();
    }
    poll(10000);
    EXPECT_EQ(vi.take_events(), 0U);
    EXPECT_LT(process.client.arenas_asked, 2000);
}

TEST_P(ShmHostile, ManyMessagesWithoutReceivesCostNothing) {
    for (int i = 0; i < 20000; ++i) {
        if (!peer.send(FrameKind::Inline, {})) vi.poll();
    }
    poll();
    EXPECT_EQ(vi.take_events(), static_cast<std::uint32_t>(EndpointEvent::ReceiveQueueEmpty));
}

/// Frames with random content, sent as an honest writer would, to a victim that is busy itself.
TEST_P(ShmHostile, RandomFramesDoNoHarm) {
    for (std::uint64_t seed = 1; seed <= repeated(400); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const GuardedMemory memory(64 * 64);
        const auto handle = process.client.register_memory(
            memory.data(), memory.size(), 1, ka::right_rdma_read | ka::right_rdma_write);
        ASSERT_TRUE(handle);
        const auto piece = [&](std::size_t offset, std::uint32_t bytes) {
            return na::PhysicalDescriptor{reinterpret_cast<std::uint64_t>(memory.data()) + offset,
                                          bytes, handle.value()};
        };
        {
            TestVi other(process, GetParam());
            RawPeer liar(host, other);
            ASSERT_TRUE(liar.connect());
            std::uint32_t posted = 0;
            for (int step = 0; step < 300; ++step) {
                if (random.one_in(4) && posted < 1000) {
                    const std::uint32_t bytes = random.between(1, 64);
                    if (random.one_in(2))
                        other.post_receive({piece(random.below(4000), bytes)});
                    else
                        other.post_send({piece(random.below(4000), bytes)});
                    ++posted;
                }
                std::array<std::byte, na::shm::max_inline_bytes> payload;
                for (std::byte& byte : payload)
                    byte = static_cast<std::byte>(random.one_in(3) ? random.next() : 0);
                const na::shm::RingChunk chunk{
                    static_cast<std::uint16_t>(random.one_in(20) ? random.next()
                                                                 : random.below(40)),
                    static_cast<std::uint16_t>(random.one_in(2) ? random.below(300) : 64)};
                const ChunkNotice notice{chunk, random.one_in(2) ? random.below(300) : chunk.bytes};
                std::memcpy(payload.data(), &notice, sizeof notice);
                if (random.one_in(2)) {
                    RdmaChunkNotice write{{}, handle.value(), random.below(500), chunk};
                    write.aim_at(memory.data() + random.below(5000) - 500);
                    std::memcpy(payload.data(), &write, sizeof write);
                }
                const std::uint32_t lengths[] = {
                    0, 4, 8, 8, 12, 16, 20, 24, 40, random.below(na::shm::max_inline_bytes + 1)};
                const auto kinds = static_cast<std::uint32_t>(FrameKind::Last) - 1;
                liar.send(static_cast<FrameKind>(2 + random.below(kinds)),
                          std::span(payload).first(lengths[random.below(std::size(lengths))]),
                          static_cast<std::uint8_t>(random.below(8)), random.below(3));
                if (random.one_in(2)) other.poll();
                if (random.one_in(30)) {
                    liar.from_victim().control->consumed.lines.store(random.below(1000));
                    liar.from_victim().control->consumed.chunks.store(random.below(1000));
                }
                while (other.receive_done() || other.send_done()) {
                }
                if ((other.take_events() & violation) != 0) break;
            }
            other.disconnect();
            other.flush();
            while (other.receive_done() || other.send_done()) {
            }
            EXPECT_TRUE(other.queues.send.empty());
            EXPECT_TRUE(other.queues.receive.empty());
        }
        ASSERT_TRUE(process.client.deregister_memory(handle.value()));
    }
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

/// Noise in the whole channel, also where the victim writes: densely where it means something.
TEST_P(ShmHostile, NoiseDoesNoHarm) {
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        Random random(seed);
        TestVi other(process, GetParam());
        NotingSink sink;
        if (seed % 2 == 0) other.queues.sink = &sink;
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const TestMemory memory(process, 1 << 16);
        for (int round = 0; round < 4; ++round) {
            for (const na::shm::Direction* one : {&liar.towards_victim(), &liar.from_victim()}) {
                const auto first = reinterpret_cast<std::byte*>(one->control);
                const auto dense = static_cast<std::size_t>(one->ring - first) + 1024;
                for (std::byte& byte : std::span(first, dense))
                    if (random.one_in(seed % 3 == 0 ? 1 : 4))
                        byte = static_cast<std::byte>(random.next());
            }
            for (int i = 0; i < 1000; ++i)
                liar.channel()[random.below(static_cast<std::uint32_t>(liar.channel().size()))] =
                    static_cast<std::byte>(random.next());
            other.post_receive({memory.pd(0, 100)});
            other.post_send({memory.pd(0, random.between(1, 1 << 16))});
            for (int i = 0; i < 20; ++i)
                other.poll();
            other.endpoint->arm(na::Wakes::Sleeper);
        }
        other.disconnect();
    }
}

INSTANTIATE_TEST_SUITE_P(Levels, ShmHostile,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

}  // namespace
