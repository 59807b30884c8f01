// SPDX-License-Identifier: BSD-3-Clause
// One direction of a connection, as it lies in the memfd that both ends map: control lines, the
// ring of frames, the byte ring. Each line has one writer, so no line bounces without need.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cpu.hpp"
#include "na/shm/frame.hpp"

namespace via::na::shm {

enum class EndState : std::uint32_t { Open = 0, Closed = 1 };
enum class PullAbility : std::uint32_t { Unknown = 0, Yes = 1, No = 2 };

struct DirectionControl {
    /// Written by the consumer, lazily: how far it has come.
    struct alignas(base::cache_line) Consumed {
        std::atomic<std::uint64_t> lines;
        std::atomic<std::uint64_t> bytes;
    } consumed;
    /// The consumer sets it before it sleeps or stops looking; the producer takes it and rings.
    struct alignas(base::cache_line) Attention {
        std::atomic<std::uint32_t> wanted;  ///< na::Wakes
    } attention;
    /// Written by the producer, rarely: what its side is and can do.
    struct alignas(base::cache_line) Producer {
        std::atomic<std::uint32_t> state;  ///< EndState
        std::atomic<std::uint32_t>
            can_pull;                        ///< PullAbility: this side can read the other's memory
        std::atomic<std::uint32_t> can_map;  ///< this side maps the other's kmem arenas
        std::atomic<std::uint32_t> cpu;      ///< where its thread last polled, plus one
    } producer;
    std::array<std::byte, base::cache_line> reserved;
};
static_assert(sizeof(DirectionControl) == 256);

/// Sizes of one direction. The requester chooses; the acceptor checks.
struct Geometry {
    std::uint32_t frame_lines = 0;      ///< power of two
    std::uint32_t direction_bytes = 0;  ///< everything of one direction

    [[nodiscard]] bool sound() const noexcept {
        return frame_lines >= 8 && frame_lines <= 4096 && (frame_lines & (frame_lines - 1)) == 0 &&
               direction_bytes % base::cache_line == 0 && direction_bytes <= (64U << 20) &&
               direction_bytes >= sizeof(DirectionControl) + frame_lines * sizeof(FrameLine) + 1024;
    }
    [[nodiscard]] std::uint32_t ring_bytes() const noexcept {
        return direction_bytes - static_cast<std::uint32_t>(sizeof(DirectionControl)) -
               frame_lines * static_cast<std::uint32_t>(sizeof(FrameLine));
    }
    [[nodiscard]] std::uint64_t channel_bytes() const noexcept {
        return 2 * std::uint64_t{direction_bytes};
    }
};

struct Direction {
    DirectionControl* control = nullptr;
    FrameLine* lines = nullptr;
    std::byte* ring = nullptr;
    Geometry geometry;

    static Direction at(std::byte* memory, const Geometry& geometry) noexcept {
        Direction direction;
        direction.control = reinterpret_cast<DirectionControl*>(memory);
        direction.lines = reinterpret_cast<FrameLine*>(memory + sizeof(DirectionControl));
        direction.ring =
            memory + sizeof(DirectionControl) + geometry.frame_lines * sizeof(FrameLine);
        direction.geometry = geometry;
        return direction;
    }
};

/// Copies of a few bytes, without a call for the sizes that matter most.
inline void copy_small(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes >= 8) {
        if (bytes <= 16) {
            std::uint64_t head, tail;
            std::memcpy(&head, from, 8);
            std::memcpy(&tail, from + bytes - 8, 8);
            std::memcpy(to, &head, 8);
            std::memcpy(to + bytes - 8, &tail, 8);
            return;
        }
        std::memcpy(to, from, bytes);
        return;
    }
    if (bytes >= 4) {
        std::uint32_t head, tail;
        std::memcpy(&head, from, 4);
        std::memcpy(&tail, from + bytes - 4, 4);
        std::memcpy(to, &head, 4);
        std::memcpy(to + bytes - 4, &tail, 4);
        return;
    }
    for (std::size_t i = 0; i < bytes; ++i)
        to[i] = from[i];
}

/// The producer's end of a direction. Its positions are private; from the peer it takes only how
/// far the consumer has come, and believes it only as far as that can be.
class ChannelWriter {
  public:
    ChannelWriter() = default;
    explicit ChannelWriter(const Direction& direction) noexcept
        : direction_(direction),
          line_mask_(direction.geometry.frame_lines - 1),
          ring_bytes_(direction.geometry.ring_bytes()) {}

    /// Room for a frame of `payload_bytes` (at most max_inline_bytes), or null if the ring of
    /// frames is full. The payload is written there, then publish() makes the frame visible.
    [[nodiscard]] std::byte* reserve(std::uint32_t payload_bytes) noexcept {
        std::uint32_t cells = cells_for(payload_bytes);
        if (cell_ + cells > line_cells) {
            if (!line_free(line_ + 1)) return nullptr;
            store_header(FrameHeader{FrameKind::Pad, static_cast<std::uint8_t>(line_cells - cell_),
                                     0, 0, 0});
            ++line_;
            cell_ = 0;
        } else if (cell_ == 0 && !line_free(line_)) {
            return nullptr;
        }
        // One cell alone at the end of a line would cost the next frame of this size a pad.
        if (cell_ + cells == line_cells - 1 && cells > 1) ++cells;
        cells_ = cells;
        return current().payload.data();
    }

    void publish(FrameKind kind, std::uint8_t flags, std::uint32_t payload_bytes,
                 std::uint32_t argument) noexcept {
        if (cell_ == 0)
            for (std::uint32_t i = cells_; i < line_cells; ++i)
                line().cells[i].header.store(0, std::memory_order_relaxed);
        store_header(FrameHeader{kind, static_cast<std::uint8_t>(cells_), flags,
                                 static_cast<std::uint16_t>(payload_bytes), argument});
        cell_ += cells_;
        if (cell_ == line_cells) {
            cell_ = 0;
            ++line_;
        }
    }

    /// Bytes that may be put into the byte ring now. Every chunk starts on a cache line.
    [[nodiscard]] std::uint32_t ring_free() noexcept {
        const std::uint64_t used = ring_position_ - bytes_consumed_;
        return static_cast<std::uint32_t>(ring_bytes_ - used);
    }
    [[nodiscard]] std::uint32_t ring_free_refreshed() noexcept {
        refresh();
        return ring_free();
    }
    [[nodiscard]] std::uint32_t ring_bytes() const noexcept { return ring_bytes_; }

    /// Puts bytes at an offset into the chunk being written; wraps around.
    void put(std::uint32_t chunk_offset, const std::byte* from, std::uint32_t bytes) noexcept {
        std::uint32_t at = ring_offset_ + chunk_offset;
        if (at >= ring_bytes_) at -= ring_bytes_;
        const std::uint32_t first = std::min(bytes, ring_bytes_ - at);
        std::memcpy(direction_.ring + at, from, first);
        if (first != bytes) std::memcpy(direction_.ring, from + first, bytes - first);
    }
    void chunk_done(std::uint32_t bytes) noexcept {
        const std::uint32_t rounded = round_to_line(bytes);
        ring_position_ += rounded;
        ring_offset_ += rounded;
        if (ring_offset_ >= ring_bytes_) ring_offset_ -= ring_bytes_;
    }
    [[nodiscard]] static constexpr std::uint32_t round_to_line(std::uint32_t bytes) noexcept {
        return (bytes + static_cast<std::uint32_t>(base::cache_line) - 1) &
               ~static_cast<std::uint32_t>(base::cache_line - 1);
    }

    [[nodiscard]] DirectionControl& control() noexcept { return *direction_.control; }

  private:
    [[nodiscard]] FrameLine& line() noexcept { return direction_.lines[line_ & line_mask_]; }
    [[nodiscard]] Cell& current() noexcept { return line().cells[cell_]; }
    [[nodiscard]] bool lap() const noexcept { return ((line_ / (line_mask_ + 1)) & 1) == 0; }
    void store_header(const FrameHeader& header) noexcept {
        current().header.store(encode(header, lap()), std::memory_order_release);
    }
    [[nodiscard]] bool line_free(std::uint64_t number) noexcept {
        if (number - lines_consumed_ <= line_mask_) [[likely]]
            return true;
        refresh();
        return number - lines_consumed_ <= line_mask_;
    }
    void refresh() noexcept {
        const std::uint64_t lines =
            direction_.control->consumed.lines.load(std::memory_order_acquire);
        const std::uint64_t bytes =
            direction_.control->consumed.bytes.load(std::memory_order_acquire);
        if (lines >= lines_consumed_ && lines <= line_) lines_consumed_ = lines;
        if (bytes >= bytes_consumed_ && bytes <= ring_position_ && bytes % base::cache_line == 0)
            bytes_consumed_ = bytes;
    }

    Direction direction_;
    std::uint64_t line_mask_ = 0;
    std::uint64_t line_ = 0;
    std::uint32_t cell_ = 0;
    std::uint32_t cells_ = 0;
    std::uint64_t lines_consumed_ = 0;
    std::uint32_t ring_bytes_ = 0;
    std::uint32_t ring_offset_ = 0;
    std::uint64_t ring_position_ = 0;
    std::uint64_t bytes_consumed_ = 0;
};

/// The consumer's end. What it reads can be overwritten by the peer at any time: headers are
/// taken once and checked, payloads copied once.
class ChannelReader {
  public:
    ChannelReader() = default;
    explicit ChannelReader(const Direction& direction) noexcept
        : direction_(direction),
          line_mask_(direction.geometry.frame_lines - 1),
          ring_bytes_(direction.geometry.ring_bytes()) {}

    enum class Look { Nothing, Frame, Nonsense };

    /// The next frame, if there is one.
    [[nodiscard]] Look look(FrameHeader& header) noexcept {
        for (;;) {
            const std::uint64_t word = base::load_then_order(
                current().header, [&](auto value) { return is_present(value, lap_); });
            if (!is_present(word, lap_)) [[likely]]
                return Look::Nothing;
            header = decode(word);
            if (!is_sound(header, cell_)) return Look::Nonsense;
            if (header.kind != FrameKind::Pad) return Look::Frame;
            // Whole lines are never padded, or a peer could keep this loop going.
            if (cell_ == 0) return Look::Nonsense;
            advance(header);
        }
    }
    /// A look without taking a pad or any other state: safe from another thread than the reader's
    /// as long as the endpoint lives.
    [[nodiscard]] bool arrival_visible() const noexcept {
        const auto* word = watched_.load(std::memory_order_relaxed);
        const std::uint64_t seen = word->load(std::memory_order_relaxed);
        // Any present header of either lap that is not the one last consumed counts; see advance().
        return is_present(seen, watched_lap_.load(std::memory_order_relaxed));
    }
    [[nodiscard]] const std::byte* payload() noexcept { return current().payload.data(); }

    void advance(const FrameHeader& header) noexcept {
        cell_ += header.cells;
        if (cell_ >= line_cells) {
            cell_ = 0;
            ++line_;
            lap_ = ((line_ / (line_mask_ + 1)) & 1) == 0;
            watched_lap_.store(lap_, std::memory_order_relaxed);
            if (line_ - lines_published_ >= (line_mask_ + 1) / 4) publish();
        }
        watched_.store(&current().header, std::memory_order_relaxed);
    }

    /// Bytes of the byte ring at an offset into the current chunk.
    void take(std::uint32_t chunk_offset, std::byte* to, std::uint32_t bytes) noexcept {
        std::uint32_t at = ring_offset_ + chunk_offset;
        if (at >= ring_bytes_) at -= ring_bytes_;
        const std::uint32_t first = std::min(bytes, ring_bytes_ - at);
        std::memcpy(to, direction_.ring + at, first);
        if (first != bytes) std::memcpy(to + first, direction_.ring, bytes - first);
    }
    /// The chunk in place, or null if it wraps around.
    [[nodiscard]] const std::byte* chunk_in_place(std::uint32_t bytes) const noexcept {
        return bytes <= ring_bytes_ - ring_offset_ ? direction_.ring + ring_offset_ : nullptr;
    }
    void chunk_done(std::uint32_t bytes) noexcept {
        const std::uint32_t rounded = ChannelWriter::round_to_line(bytes);
        ring_position_ += rounded;
        ring_offset_ += rounded;
        if (ring_offset_ >= ring_bytes_) ring_offset_ -= ring_bytes_;
        if (ring_position_ - bytes_published_ >= ring_bytes_ / 4) publish();
    }
    /// A chunk length that an honest writer can have sent.
    [[nodiscard]] bool chunk_sound(std::uint32_t bytes) const noexcept {
        return bytes != 0 && bytes <= ring_bytes_;
    }

    [[nodiscard]] DirectionControl& control() noexcept { return *direction_.control; }
    void watch() noexcept {
        watched_.store(&current().header, std::memory_order_relaxed);
        watched_lap_.store(lap_, std::memory_order_relaxed);
    }

  private:
    [[nodiscard]] Cell& current() noexcept {
        return direction_.lines[line_ & line_mask_].cells[cell_];
    }
    void publish() noexcept {
        direction_.control->consumed.bytes.store(ring_position_, std::memory_order_release);
        direction_.control->consumed.lines.store(line_, std::memory_order_release);
        lines_published_ = line_;
        bytes_published_ = ring_position_;
    }

    Direction direction_;
    std::uint64_t line_mask_ = 0;
    std::uint64_t line_ = 0;
    std::uint32_t cell_ = 0;
    bool lap_ = true;
    std::uint64_t lines_published_ = 0;
    std::uint32_t ring_bytes_ = 0;
    std::uint32_t ring_offset_ = 0;
    std::uint64_t ring_position_ = 0;
    std::uint64_t bytes_published_ = 0;
    std::atomic<std::atomic<std::uint64_t>*> watched_{nullptr};
    std::atomic<bool> watched_lap_{true};
};

}  // namespace via::na::shm
