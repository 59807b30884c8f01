// SPDX-License-Identifier: BSD-3-Clause
// Frames that nobody honest sends: of kinds, lengths and cells that can not be, or not all there.
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "na/seeded.hpp"
#include "na/shm/shm_hostile.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;
using na::shm::FrameKind;

namespace {

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

}  // namespace
