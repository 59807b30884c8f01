// SPDX-License-Identifier: BSD-3-Clause
// Frames of the shm channel. A channel direction is a ring of cache lines of four 16-byte cells. A
// frame is 1 to 4 cells of one line: an 8-byte header, then up to 56 bytes. Header and payload
// travel in the same line, so a small message costs one line; small frames share a line when the
// receiver lags behind.
//
// How the reader knows a header is new: the first cell of a line always holds a header, and its lap
// bit changes with every round through the ring; the headers of the other cells are zeroed by the
// writer when it starts the line.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cpu.hpp"

namespace via::na::shm {

inline constexpr std::uint32_t cell_bytes = 16;
inline constexpr std::uint32_t line_cells = 4;
inline constexpr std::uint32_t header_bytes = 8;
inline constexpr std::uint32_t max_inline_bytes = line_cells * cell_bytes - header_bytes;

enum class FrameKind : std::uint8_t {
    None = 0,
    Pad,             ///< the rest of the line is unused
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
};

inline constexpr std::uint8_t frame_immediate = 1;  ///< argument is immediate data
inline constexpr std::uint8_t frame_final = 2;      ///< last chunk of the message
inline constexpr std::uint8_t frame_read = 4;       ///< RdmaRefused: it was a read

struct FrameHeader {
    FrameKind kind = FrameKind::None;
    std::uint8_t cells = 1;
    std::uint8_t flags = 0;
    std::uint16_t length = 0;  ///< payload bytes in the frame
    std::uint32_t argument = 0;
};

[[nodiscard]] constexpr std::uint64_t encode(const FrameHeader& header, bool lap) noexcept {
    return static_cast<std::uint64_t>(header.kind) | (lap ? 0x20U : 0U) |
           static_cast<std::uint64_t>(header.cells - 1U) << 6 |
           static_cast<std::uint64_t>(header.flags) << 8 |
           static_cast<std::uint64_t>(header.length) << 16 |
           static_cast<std::uint64_t>(header.argument) << 32;
}
[[nodiscard]] constexpr bool is_present(std::uint64_t word, bool lap) noexcept {
    return (word & 0x1F) != 0 && ((word & 0x20) != 0) == lap;
}
[[nodiscard]] constexpr FrameHeader decode(std::uint64_t word) noexcept {
    return {static_cast<FrameKind>(word & 0x1F), static_cast<std::uint8_t>(((word >> 6) & 3) + 1),
            static_cast<std::uint8_t>(word >> 8), static_cast<std::uint16_t>(word >> 16),
            static_cast<std::uint32_t>(word >> 32)};
}
/// Could an honest writer have written this header at this cell?
[[nodiscard]] constexpr bool is_sound(const FrameHeader& header, std::uint32_t cell) noexcept {
    return header.kind <= FrameKind::Last && cell + header.cells <= line_cells &&
           header_bytes + header.length <= header.cells * cell_bytes;
}
[[nodiscard]] constexpr std::uint32_t cells_for(std::uint32_t payload_bytes) noexcept {
    return (header_bytes + payload_bytes + cell_bytes - 1) / cell_bytes;
}

struct Cell {
    std::atomic<std::uint64_t> header;
    std::array<std::byte, 8> payload;
};
static_assert(sizeof(Cell) == cell_bytes);

struct alignas(base::cache_line) FrameLine {
    std::array<Cell, line_cells> cells;
};
static_assert(sizeof(FrameLine) == base::cache_line);

}  // namespace via::na::shm
