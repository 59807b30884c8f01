// SPDX-License-Identifier: BSD-3-Clause
// One direction of a shm channel whose memory a hostile peer fills with anything, while this side
// reads. Whatever stands there, the reader stays inside its line and its ring.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "na/shm/channel.hpp"
#include "na/shm/guarded_memory.hpp"

using namespace via::na::shm;

namespace {

constexpr Geometry geometry{8, sizeof(DirectionControl) + 8 * sizeof(FrameLine) + 1024};

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

/// Each 17 bytes of the input: which cell (or which 16 bytes of the ring) to write, and what.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const via::test::GuardedMemory back(geometry.direction_bytes);
    static const via::test::GuardedMemory front(geometry.direction_bytes,
                                                via::test::GuardedMemory::Edge::Front);
    const auto& memory = size % 2 == 0 ? back : front;
    std::memset(memory.data(), 0, memory.size());
    const Direction direction = Direction::at(memory.data(), geometry);
    ChannelReader reader(direction);
    reader.watch();
    std::vector<std::byte> taken(geometry.ring_bytes());
    constexpr std::size_t cells = 8 * line_cells;
    for (; size >= 17; data += 17, size -= 17) {
        const std::size_t where = data[0];
        std::byte* to = where < cells ? reinterpret_cast<std::byte*>(direction.lines) + where * 16
                                      : direction.ring + (where * 16) % geometry.ring_bytes();
        std::memcpy(to, data + 1, 16);
        FrameHeader frame;
        for (int looks = 0; looks < 64; ++looks) {
            [[maybe_unused]] const bool visible = reader.arrival_visible();
            const auto look = reader.look(frame);
            if (look == ChannelReader::Look::Nonsense) return 0;  // the connection ends
            if (look == ChannelReader::Look::Nothing) break;
            require(frame.kind != FrameKind::Pad && frame.kind != FrameKind::None);
            require(memory.contains(reader.payload(), frame.length));
            std::byte payload[max_inline_bytes];
            require(frame.length <= sizeof payload);
            std::memcpy(payload, reader.payload(), frame.length);
            std::uint32_t chunk = 0;
            std::memcpy(&chunk, payload, std::min<std::size_t>(frame.length, 4));
            if ((frame.flags & 1) != 0 && reader.chunk_sound(chunk)) {
                const std::uint32_t split = frame.argument % (chunk + 1);
                reader.take(0, taken.data(), split);
                reader.take(split, taken.data() + split, chunk - split);
                const std::byte* in_place = reader.chunk_in_place(chunk);
                require(in_place == nullptr || memory.contains(in_place, chunk));
                reader.chunk_done(chunk);
            }
            reader.advance(frame);
        }
        require(direction.control->consumed.bytes.load() % 64 == 0);
    }
    return 0;
}
