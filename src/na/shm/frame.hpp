// SPDX-License-Identifier: BSD-3-Clause
// Frames of the shm channel. A channel direction is a ring of cache lines of four 16-byte cells. A
// frame is 1 to 4 cells of one line. Its first cell has 8 bytes of payload and an 8-byte header,
// each further cell 15 bytes of payload and a tag. Small frames share a line when the receiver lags
// behind.
//
// Every cell is stored in one piece and says by its last byte whether it is new: that byte holds a
// kind, which is never 0, and the lap bit, which changes with every round through the ring. So
// payload and header need no order between them, and a line that the receiver is polling changes
// hands once and not twice.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/cpu.hpp"

namespace via::na::shm {

inline constexpr std::uint32_t cell_bytes = 16;
inline constexpr std::uint32_t line_cells = 4;
inline constexpr std::uint32_t first_cell_payload = 8;
inline constexpr std::uint32_t further_cell_payload = 15;
inline constexpr std::uint32_t max_inline_bytes =
    first_cell_payload + (line_cells - 1) * further_cell_payload;
/// Enough to hold them.
inline constexpr std::size_t line_words = 7;

enum class FrameKind : std::uint8_t {
    None = 0,
    Pad,             ///< an unused cell
    Inline,          ///< a whole message in the frame
    First,           ///< first chunk of a message in the byte ring
    Next,            ///< a further chunk
    Reference,       ///< a message to be fetched from the sender's memory
    Acknowledge,     ///< so many messages were received (or one failed)
    RdmaDone,        ///< the peer has RDMA-written here and sends immediate data
    RdmaRefused,     ///< the peer's RDMA failed the check it made on this side's behalf
    RdmaWriteFirst,  ///< RDMA through the ring, where neither mapping nor CMA works
    RdmaWriteNext,
    RdmaReadRequest,
    RdmaReadData,
    ArenaOffer,   ///< the sender would like to refer to this kmem arena
    ArenaMapped,  ///< the receiver has it mapped
    Last = ArenaMapped,
    Continuation = 0x1F,  ///< no frame: a further cell of one
};

inline constexpr std::uint8_t frame_immediate = 1;   ///< argument is immediate data
inline constexpr std::uint8_t frame_final = 2;       ///< last chunk of the message
inline constexpr std::uint8_t frame_read = 4;        ///< RdmaRefused: it was a read
inline constexpr std::uint8_t frame_headed = 8;      ///< Inline, First: a HeadedMessage
inline constexpr std::uint8_t frame_two_words = 16;  ///< and its head has two words

struct FrameHeader {
    FrameKind kind = FrameKind::None;
    std::uint8_t cells = 1;
    std::uint8_t flags = 0;
    std::uint16_t length = 0;  ///< payload bytes in the frame
    std::uint32_t argument = 0;
};

inline constexpr unsigned tag_shift = 56;
inline constexpr unsigned flags_shift = 48;
inline constexpr unsigned length_shift = 32;
inline constexpr std::uint64_t payload_of_tagged_word = (std::uint64_t{1} << tag_shift) - 1;

[[nodiscard]] constexpr std::uint64_t encode_tag(FrameKind kind, std::uint32_t cells,
                                                 bool lap) noexcept {
    return (static_cast<std::uint64_t>(kind) | (lap ? 0x20U : 0U) |
            static_cast<std::uint64_t>(cells - 1U) << 6)
           << tag_shift;
}
[[nodiscard]] constexpr std::uint64_t encode(const FrameHeader& header, bool lap) noexcept {
    return encode_tag(header.kind, header.cells, lap) |
           static_cast<std::uint64_t>(header.flags) << flags_shift |
           static_cast<std::uint64_t>(header.length) << length_shift | header.argument;
}
inline constexpr std::uint64_t lap_bit = std::uint64_t{0x20} << tag_shift;
/// What is fixed in a frame of the commonest kind: Inline, headed by one word, two cells. The lap
/// bit is not set.
inline constexpr std::uint64_t short_headed_tag =
    encode_tag(FrameKind::Inline, 2, false) | std::uint64_t{frame_headed} << flags_shift;
[[nodiscard]] constexpr bool is_present(std::uint64_t word, bool lap) noexcept {
    const std::uint64_t tag = word >> tag_shift;
    return (tag & 0x1F) != 0 && ((tag & 0x20) != 0) == lap;
}
[[nodiscard]] constexpr bool is_continuation(std::uint64_t word, bool lap) noexcept {
    return ((word >> tag_shift) & 0x3F) == (0x1FU | (lap ? 0x20U : 0U));
}
[[nodiscard]] constexpr FrameHeader decode(std::uint64_t word) noexcept {
    return {static_cast<FrameKind>((word >> tag_shift) & 0x1F),
            static_cast<std::uint8_t>((word >> (tag_shift + 6)) + 1),
            static_cast<std::uint8_t>(word >> flags_shift),
            static_cast<std::uint16_t>(word >> length_shift), static_cast<std::uint32_t>(word)};
}
[[nodiscard]] constexpr std::uint32_t payload_of_cells(std::uint32_t cells) noexcept {
    return first_cell_payload + (cells - 1) * further_cell_payload;
}
/// Could an honest writer have written this header at this cell?
[[nodiscard]] constexpr bool is_sound(const FrameHeader& header, std::uint32_t cell) noexcept {
    return header.kind <= FrameKind::Last && cell + header.cells <= line_cells &&
           header.length <= payload_of_cells(header.cells);
}
[[nodiscard]] constexpr std::uint32_t cells_for(std::uint32_t payload_bytes) noexcept {
    if (payload_bytes <= first_cell_payload) return 1;
    return 1 +
           (payload_bytes - first_cell_payload + further_cell_payload - 1) / further_cell_payload;
}

/// The last byte in memory is the highest of the second word.
static_assert(std::endian::native == std::endian::little);

struct alignas(cell_bytes) Cell {
    std::atomic<std::uint64_t> payload;
    std::atomic<std::uint64_t> header;  ///< of a further cell: its tag and 7 bytes of payload
};
static_assert(sizeof(Cell) == cell_bytes);

struct alignas(base::cache_line) FrameLine {
    std::array<Cell, line_cells> cells;
};
static_assert(sizeof(FrameLine) == base::cache_line);

/// A piece of the byte ring, as frames name it.
struct RingChunk {
    std::uint16_t line = 0;   ///< where it begins, in cache lines
    std::uint16_t bytes = 0;  ///< 0: none
};
inline constexpr std::uint32_t max_ring_bytes = 0x10000 * base::cache_line;
inline constexpr std::uint32_t max_chunk_bytes = 0xFFFF;

}  // namespace via::na::shm
