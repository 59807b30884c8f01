// SPDX-License-Identifier: BSD-3-Clause
// A shm endpoint against a peer that does anything: frames of any content, noise in any cell and
// counter, in any order with what the victim does itself. The input is a script of both.
#include <cstdint>
#include <cstring>

#include "fuzz/script.hpp"
#include "na/shm/noting_sink.hpp"
#include "na/shm/test_host.hpp"

using namespace via;
using namespace via::test;
using na::shm::FrameKind;

namespace {

/// Everything that lives as long as the process: the host, memory that the peer may reach by RDMA
/// and memory that it may not.
struct World : ExposedMemory {
    TestHost host;
    TestProcess process{host};
    std::uint32_t open_handle = 0;
    std::uint32_t secret_handle = 0;

    World() {
        open_handle = process.client
                          .register_memory(open.data(), open.size(), 1,
                                           ka::right_rdma_write | ka::right_rdma_read)
                          .value();
        secret_handle = process.client.register_memory(secret.data(), secret.size(), 1, 0).value();
    }
    [[nodiscard]] na::PhysicalDescriptor piece(std::uint32_t offset, std::uint32_t bytes) const {
        return {reinterpret_cast<std::uint64_t>(open.data()) + offset % 2048, 1 + bytes % 2048,
                open_handle};
    }
};

void run(World& world, Script script) {
    const auto choices = script.take<std::uint8_t>();
    TestVi victim(world.process, 1U << (choices % 3));
    NotingSink sink;
    if ((choices & 0x80) != 0) victim.queues.sink = &sink;
    RawPeer peer(world.host, victim);
    require(peer.connect().ok());
    na::shm::RingChunk last_chunk;
    for (int steps = 0; steps < 400 && script.more(); ++steps) {
        switch (script.take<std::uint8_t>() % 12) {
            case 0:
            case 1:
            case 2: {  // a frame as an honest writer would place it
                const auto kind = static_cast<FrameKind>(2 + script.take<std::uint8_t>() % 13);
                const auto flags = script.take<std::uint8_t>();
                const auto argument = script.take<std::uint32_t>();
                const auto length = script.take<std::uint8_t>() % (na::shm::max_inline_bytes + 1);
                std::array<std::byte, na::shm::max_inline_bytes> payload{};
                for (std::size_t i = 0; i < length; ++i)
                    payload[i] = script.take<std::byte>();
                // Addresses are of no use to a fuzzer: it names the open or the secret memory.
                if ((flags & 0x80) != 0 && length >= 16) {
                    const auto& memory = (flags & 0x40) != 0 ? world.secret : world.open;
                    const std::uint64_t address =
                        reinterpret_cast<std::uint64_t>(memory.data()) + argument % 5000;
                    const std::uint32_t handle =
                        (flags & 0x20) != 0 ? world.secret_handle : world.open_handle;
                    const std::size_t at = kind == FrameKind::Reference ? 8 : 0;
                    if (at + 16 <= length) {
                        std::memcpy(payload.data() + at, &address, 8);
                        std::memcpy(payload.data() + at + (at == 0 ? 8 : 12), &handle, 4);
                    }
                }
                // Nor is the place of a chunk: it names the one that was put there last.
                if ((flags & 0x10) != 0) {
                    const bool write =
                        kind == FrameKind::RdmaWriteFirst || kind == FrameKind::RdmaWriteNext;
                    const std::size_t at = write ? 16 : kind == FrameKind::Reference ? 8 : 0;
                    if (at + sizeof last_chunk <= length)
                        std::memcpy(payload.data() + at, &last_chunk, sizeof last_chunk);
                }
                peer.send(kind, std::span(payload).first(length), flags & 7, argument);
                break;
            }
            case 3: {  // bytes in the ring
                std::array<std::byte, 832> bytes;
                bytes.fill(script.take<std::byte>());
                const std::size_t most =
                    std::min<std::size_t>(bytes.size(), peer.writer->longest_chunk());
                const auto length = 1 + script.take<std::uint16_t>() % most;
                if (const auto chunk = peer.put_in_ring(std::span(bytes).first(length)))
                    last_chunk = *chunk;
                break;
            }
            case 4: {  // noise in any cell
                const auto where = script.take<std::uint16_t>();
                const na::shm::Direction& in = peer.towards_victim();
                auto& cell = in.lines[where / 4 % in.geometry.frame_lines].cells[where % 4];
                ((where & 0x8000) != 0 ? cell.payload : cell.header)
                    .store(script.take<std::uint64_t>());
                break;
            }
            case 5: {  // noise anywhere in the channel
                const auto where = script.take<std::uint16_t>() % peer.channel().size();
                peer.channel()[where] = script.take<std::byte>();
                break;
            }
            case 6:
                peer.from_victim().control->consumed.lines.store(script.take<std::uint16_t>());
                peer.from_victim().control->consumed.chunks.store(script.take<std::uint16_t>());
                break;
            case 7:
                victim.post_receive(
                    {world.piece(script.take<std::uint16_t>(), script.take<std::uint16_t>())});
                break;
            case 8: {
                const auto choice = script.take<std::uint8_t>();
                SendOptions options;
                if ((choice & 1) != 0) options.immediate = choice;
                options.fence = (choice & 2) != 0;
                const auto piece =
                    world.piece(script.take<std::uint16_t>(), script.take<std::uint16_t>());
                if ((choice & 4) == 0)
                    victim.post_send({piece}, options);
                else
                    victim.post_rdma(na::Operation::RdmaRead, {0, 0, script.take<std::uint32_t>()},
                                     {piece}, options);
                break;
            }
            case 9:
                sink.refusals = script.take<std::uint8_t>() % 4;
                break;
            case 10:
                victim.endpoint->arm(static_cast<na::Wakes>(script.take<std::uint8_t>() % 3));
                break;
            default:
                victim.poll();
                break;
        }
        if (victim.queues.send.posted() > 200 || victim.queues.receive.posted() > 200) break;
    }
    for (int i = 0; i < 8; ++i)
        victim.poll();
    // Every descriptor is accounted for, whatever happened.
    victim.disconnect();
    const std::uint64_t posted = victim.queues.send.posted() + victim.queues.receive.posted();
    victim.flush();
    std::uint64_t done = 0;
    while (victim.send_done() || victim.receive_done())
        ++done;
    require(done <= posted);
    require(victim.queues.send.empty() && victim.queues.receive.empty());
    world.require_untouched();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    // Small rings are full and wrap around sooner.
    setenv("VIA_SHM_RING_BYTES", "4k", 1);
    setenv("VIA_SHM_FRAME_LINES", "8", 1);
    setenv("VIA_SHM_CHUNK_BYTES", "256", 1);
    setenv("VIA_SHM_SINGLE_COPY_BYTES", "1k", 1);
    setenv("VIA_LOG", "silent", 1);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static World& world = *new World;
    run(world, Script(data, size));
    return 0;
}
