// SPDX-License-Identifier: BSD-3-Clause
// One direction of a shm channel whose memory a hostile peer fills with anything, while this side
// reads. Whatever stands there, the reader stays inside its line and its ring, and tells of no more
// than it has taken.
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
    constexpr std::size_t cells = 8 * line_cells;
    std::uint64_t cells_taken = 0;
    std::uint64_t chunks_taken = 0;
    std::vector<std::byte> taken(geometry.ring_bytes());
    for (; size >= 17; data += 17, size -= 17) {
        const std::size_t where = data[0];
        std::byte* to = where < cells ? reinterpret_cast<std::byte*>(direction.lines) + where * 16
                                      : direction.ring + (where * 16) % geometry.ring_bytes();
        std::memcpy(to, data + 1, 16);
        FrameHeader frame;
        for (int looks = 0; looks < 64; ++looks) {
            const bool visible = reader.arrival_visible();
            std::uint64_t word = 0;
            const std::uint64_t there = reader.peek(word);
            require(ChannelReader::is_arrival(there) == visible);
            if ((looks & 1) != 0 && there == static_cast<std::uint64_t>(FrameKind::Inline) &&
                decode(word).length <= first_cell_payload) {
                frame = decode(word);
                require(frame.kind == FrameKind::Inline && frame.cells == 1);
                const std::uint64_t small = reader.small_payload();
                std::memcpy(taken.data(), &small, frame.length);
                reader.advance(frame);
                ++cells_taken;
                continue;
            }
            const auto look = reader.look(frame);
            if (look == ChannelReader::Look::Nonsense) return 0;  // the connection ends
            if (look == ChannelReader::Look::Nothing) {
                if (size % 3 == 0) reader.publish_the_rest();
                break;
            }
            require(visible);
            require(frame.kind > FrameKind::Pad && frame.kind <= FrameKind::Last);
            require(frame.length <= payload_of_cells(frame.cells));
            // One byte more than there can be, to see that it is not touched.
            std::byte payload[max_inline_bytes + 1] = {};
            payload[frame.length] = std::byte{0xA5};
            reader.read_payload(payload, frame.length);
            require(payload[frame.length] == std::byte{0xA5});
            payload[frame.length] = {};
            RingChunk chunk;
            std::memcpy(&chunk, payload, sizeof chunk);
            if ((frame.flags & 1) != 0) {
                const std::byte* bytes = reader.chunk(chunk);
                const bool inside =
                    chunk.bytes != 0 && chunk.line * 64U + chunk.bytes <= geometry.ring_bytes();
                require((bytes != nullptr) == inside);
                if (inside) {
                    require(memory.contains(bytes, chunk.bytes));
                    std::memcpy(taken.data(), bytes, chunk.bytes);
                    reader.chunk_done(chunk);
                    ++chunks_taken;
                }
            }
            reader.advance(frame);
            cells_taken += frame.cells;
        }
        const auto& told = direction.control->consumed;
        require(told.chunks.load() <= chunks_taken);
        // Pads are taken, too, at most three in a line of which the first cell is none.
        require(told.lines.load() <= cells_taken);
    }
    return 0;
}
