// SPDX-License-Identifier: BSD-3-Clause
// Floods: offers and messages in masses, frames of random content, noise all over the channel.
#include <array>
#include <cstring>
#include <iterator>
#include <span>
#include <string>

#include "na/seeded.hpp"
#include "na/shm/guarded_memory.hpp"
#include "na/shm/noting_sink.hpp"
#include "na/shm/shm_hostile.hpp"

using namespace via;
using namespace via::test;
using na::EndpointEvent;
using na::shm::FrameKind;

namespace {

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

}  // namespace
