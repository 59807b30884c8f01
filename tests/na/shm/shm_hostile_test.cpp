// SPDX-License-Identifier: BSD-3-Clause
// A peer that writes what it likes into the channel. Whatever it does, the endpoint neither reads
// nor writes outside what was granted, ends what it can not understand, and keeps its own state.
#include <malloc.h>

#include <array>
#include <cstring>

#include "na/shm/guarded_memory.hpp"
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
    void put_in_ring(std::uint32_t bytes) {
        std::vector<std::byte> data(bytes);
        peer.writer->put(0, data.data(), bytes);
        peer.writer->chunk_done(bytes);
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
    EXPECT_FALSE(attempt(4096, real.direction_bytes));
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
    peer.towards_victim().lines[0].cells[0].header.store(
        na::shm::encode({static_cast<FrameKind>(31), 1, 0, 0, 0}, true));
    expect_violation();
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

TEST_P(ShmHostile, ChunksOutOfOrderEndTheConnection) {
    const struct {
        const char* what;
        std::vector<FrameKind> kinds;
        std::uint32_t chunk, total;
        std::uint8_t flags;
    } cases[] = {
        {"next without first", {FrameKind::Next}, 64, 64, na::shm::frame_final},
        {"first inside a message", {FrameKind::First, FrameKind::First}, 64, 1000, 0},
        {"no bytes", {FrameKind::First}, 0, 64, 0},
        {"more than the ring", {FrameKind::First}, 0x10000000, 0x20000000, 0},
        {"more than the message", {FrameKind::First}, 65, 64, 0},
        {"more than the message in the end", {FrameKind::First, FrameKind::Next}, 64, 100, 0},
        {"ends too early", {FrameKind::First}, 64, 65, na::shm::frame_final},
        {"does not end", {FrameKind::First}, 64, 64, 0},
    };
    for (const auto& bad : cases) {
        SCOPED_TRACE(bad.what);
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const TestMemory target(process, 100);
        other.post_receive({target.pd()});
        other.post_receive({target.pd()});
        for (const FrameKind kind : bad.kinds)
            ASSERT_TRUE(liar.send_words(kind, {bad.chunk, bad.total}, bad.flags));
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
    put_in_ring(64);
    ASSERT_TRUE(peer.send_words(FrameKind::First, {64, 1000}));
    ASSERT_TRUE(peer.send(FrameKind::Inline, {}));
    expect_violation();
}

TEST_P(ShmHostile, MalformedReferencesEndTheConnection) {
    struct Segment {
        std::uint64_t address;
        std::uint32_t length, handle;
    };
    const auto attempt = [&](std::uint32_t total, std::uint32_t count,
                             const std::vector<Segment>& inside, bool room_in_ring) {
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        EXPECT_TRUE(liar.connect());
        const TestMemory target(process, 100);
        other.post_receive({target.pd()});
        std::array<std::byte, na::shm::max_inline_bytes> payload{};
        std::memcpy(payload.data(), &total, 4);
        std::memcpy(payload.data() + 4, &count, 4);
        const std::size_t bytes = inside.size() * sizeof(Segment);
        if (bytes != 0) std::memcpy(payload.data() + 8, inside.data(), bytes);
        if (room_in_ring) {
            std::vector<std::byte> list(512);
            liar.writer->put(0, list.data(), 512);
            liar.writer->chunk_done(512);
        }
        EXPECT_TRUE(liar.send(FrameKind::Reference, std::span(payload).first(8 + bytes)));
        for (int i = 0; i < 10; ++i)
            other.poll();
        EXPECT_FALSE(other.receive_done());
        return (other.take_events() & violation) != 0;
    };
    const Segment ten{4096, 10, 1};
    EXPECT_TRUE(attempt(10, 0, {}, false)) << "no segments";
    EXPECT_TRUE(attempt(10, 2, {ten}, false)) << "fewer than said";
    EXPECT_TRUE(attempt(10, 1, {ten, ten}, false)) << "more than said";
    EXPECT_TRUE(attempt(11, 1, {ten}, false)) << "they do not add up";
    EXPECT_TRUE(attempt(4, 2, {{0, 0xFFFFFFFF, 1}, {0, 5, 1}}, false)) << "they add up mod 2^32";
    EXPECT_TRUE(attempt(10, 253, {}, true)) << "too many";
    EXPECT_TRUE(attempt(10, 0x10000001, {}, true)) << "times 16 it is 16";
    EXPECT_TRUE(attempt(10, 0xFFFFFFFF, {}, true));
}

// An address that is not there: the message is lost, the connection at the level that allows it
// not.
TEST_P(ShmHostile, AReferenceThatLeadsNowhereIsAnErrorOfThatMessage) {
    const TestMemory target(process, 100);
    vi.post_receive({target.pd()});
    struct {
        std::uint32_t total = 100, count = 1;
        std::uint64_t address = 64;
        std::uint32_t length = 100, handle = 0;
    } words;
    ASSERT_TRUE(peer.send(FrameKind::Reference, std::as_bytes(std::span(&words, 1))));
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
    struct {
        std::uint32_t total = 4096, count = 1;
        std::uint64_t address;
        std::uint32_t length = 4096, handle;
    } words;
    words.address = 64;
    words.handle = secret.handle();
    const int asked = process.client.arenas_asked;
    ASSERT_TRUE(peer.send(FrameKind::Reference, std::as_bytes(std::span(&words, 1))));
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
    put_in_ring(64);
    ASSERT_TRUE(peer.send_words(FrameKind::RdmaReadData, {64, 0}, 0, 0));
    expect_violation();
}

TEST_P(ShmHostile, TooManyReadRequestsEndTheConnection) {
    // The victim's answers find no room, because nobody takes them away.
    const TestMemory memory(process, 1 << 20);
    struct {
        std::uint64_t address;
        std::uint32_t handle, length;
    } words{reinterpret_cast<std::uint64_t>(memory.data()), memory.handle(), 1 << 20};
    std::uint32_t events = 0;
    for (int i = 0; i < 200 && events == 0; ++i) {
        peer.send(FrameKind::RdmaReadRequest, std::as_bytes(std::span(&words, 1)));
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
            liar.writer->put(0, data.data(), attempt.bytes);
            liar.writer->chunk_done(attempt.bytes);
            struct {
                std::uint64_t address;
                std::uint32_t handle, total, chunk, padding;
            } words{address, lie, attempt.bytes, attempt.bytes, 0};
            ASSERT_TRUE(liar.send(FrameKind::RdmaWriteFirst, std::as_bytes(std::span(&words, 1)),
                                  na::shm::frame_final));
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
            struct {
                std::uint64_t address;
                std::uint32_t handle, length;
            } words{address, lie, attempt.bytes};
            ASSERT_TRUE(
                liar.send(FrameKind::RdmaReadRequest, std::as_bytes(std::span(&words, 1)), 0, 42));
            for (int i = 0; i < 10; ++i)
                other.poll();
            na::shm::FrameHeader frame;
            ASSERT_EQ(liar.reader->look(frame), na::shm::ChannelReader::Look::Frame);
            EXPECT_EQ(frame.kind, FrameKind::RdmaReadData);
            EXPECT_EQ(frame.argument, 42U);
            std::uint32_t answer[2] = {};
            ASSERT_EQ(frame.length, sizeof answer);
            std::memcpy(answer, liar.reader->payload(), sizeof answer);
            EXPECT_EQ(answer[1], attempt.allowed ? 0 : na::status_rdma_protection);
            if (!attempt.allowed) {
                EXPECT_EQ(answer[0], 0U);
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
    struct {
        std::uint64_t address;
        std::uint32_t handle, total, chunk, padding;
    } words{reinterpret_cast<std::uint64_t>(memory.data()), memory.handle(), 100, 64, 0};
    put_in_ring(64);
    ASSERT_TRUE(peer.send(FrameKind::RdmaWriteFirst, std::as_bytes(std::span(&words, 1))));
    put_in_ring(64);
    ASSERT_TRUE(peer.send(FrameKind::RdmaWriteNext, std::as_bytes(std::span(&words, 1))));
    expect_violation();
}

TEST_P(ShmHostile, AWriteThatMovesOnTheWayStaysWhereItBegan) {
    const TestMemory granted(process, 128);
    const TestMemory other_region(process, 128);
    fill_pattern(other_region.span(), 1);
    struct {
        std::uint64_t address;
        std::uint32_t handle, total, chunk, padding;
    } words{reinterpret_cast<std::uint64_t>(granted.data()), granted.handle(), 128, 64, 0};
    put_in_ring(64);
    ASSERT_TRUE(peer.send(FrameKind::RdmaWriteFirst, std::as_bytes(std::span(&words, 1))));
    words.address = reinterpret_cast<std::uint64_t>(other_region.data());
    words.handle = other_region.handle();
    words.total = 4096;
    put_in_ring(64);
    ASSERT_TRUE(peer.send(FrameKind::RdmaWriteNext, std::as_bytes(std::span(&words, 1))));
    poll();
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
                const std::uint32_t words[] = {random.one_in(2) ? random.below(300) : 64,
                                               random.one_in(2) ? random.below(300) : 64};
                std::memcpy(payload.data(), words, sizeof words);
                if (random.one_in(2)) {
                    const std::uint64_t address =
                        reinterpret_cast<std::uint64_t>(memory.data()) + random.below(5000) - 500;
                    const std::uint32_t tail[] = {handle.value(), random.below(500), 64, 0};
                    std::memcpy(payload.data(), &address, 8);
                    std::memcpy(payload.data() + 8, tail, sizeof tail);
                }
                const std::uint32_t lengths[] = {0, 4, 8, 16, 24, 40, random.below(57)};
                const auto kinds = static_cast<std::uint32_t>(FrameKind::Last) - 1;
                liar.send(static_cast<FrameKind>(2 + random.below(kinds)),
                          std::span(payload).first(lengths[random.below(7)]),
                          static_cast<std::uint8_t>(random.below(8)), random.below(3));
                if (random.one_in(2)) other.poll();
                if (random.one_in(30)) {
                    liar.from_victim().control->consumed.lines.store(random.below(1000));
                    liar.from_victim().control->consumed.bytes.store(random.below(1000) * 64);
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

/// Noise in the whole channel, also where the victim writes.
TEST_P(ShmHostile, NoiseDoesNoHarm) {
    for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
        Random random(seed);
        TestVi other(process, GetParam());
        RawPeer liar(host, other);
        ASSERT_TRUE(liar.connect());
        const TestMemory memory(process, 1 << 16);
        for (int round = 0; round < 4; ++round) {
            for (std::byte& byte : liar.channel())
                if (random.one_in(seed % 3 == 0 ? 1 : 4))
                    byte = static_cast<std::byte>(random.next());
            other.post_receive({memory.pd(0, 100)});
            other.post_send({memory.pd(0, random.between(1, 1 << 16))});
            for (int i = 0; i < 20; ++i)
                other.poll();
            na::FrameView view;
            if (other.endpoint->peek(view)) other.endpoint->consume();
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
