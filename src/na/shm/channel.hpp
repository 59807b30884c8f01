// SPDX-License-Identifier: BSD-3-Clause
// One direction of a connection, as it lies in the memfd that both ends map: control lines, the
// ring of frames, the byte ring. Each line has one writer, so no line bounces without need.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/copy_small.hpp"
#include "base/counters.hpp"
#include "base/cpu.hpp"
#include "base/probe.hpp"
#include "na/place_ahead.hpp"
#include "na/shm/frame.hpp"

namespace via::na::shm {

enum class EndState : std::uint32_t { Open = 0, Closed = 1 };
enum class PullAbility : std::uint32_t { Unknown = 0, Yes = 1, No = 2 };

struct DirectionControl {
    /// Written by the consumer, lazily: how far it has come.
    struct alignas(base::cache_line) Consumed {
        std::atomic<std::uint64_t> lines;
        std::atomic<std::uint64_t> chunks;  ///< of the byte ring
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

inline constexpr std::uint32_t least_ring_bytes = 1024;

/// Sizes of one direction. The requester chooses; the acceptor checks.
struct Geometry {
    std::uint32_t frame_lines = 0;      ///< power of two
    std::uint32_t direction_bytes = 0;  ///< everything of one direction

    [[nodiscard]] bool sound() const noexcept {
        return frame_lines >= 8 && frame_lines <= 4096 && (frame_lines & (frame_lines - 1)) == 0 &&
               direction_bytes % base::cache_line == 0 &&
               direction_bytes >=
                   sizeof(DirectionControl) + frame_lines * sizeof(FrameLine) + least_ring_bytes &&
               ring_bytes() <= max_ring_bytes;
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

using base::copy_small;

[[nodiscard]] constexpr std::uint32_t round_to_line(std::uint32_t bytes) noexcept {
    return (bytes + static_cast<std::uint32_t>(base::cache_line) - 1) &
           ~static_cast<std::uint32_t>(base::cache_line - 1);
}

/// The producer's end of a direction. Its positions are private; from the peer it takes only how
/// far the consumer has come, and believes it only as far as that can be.
///
/// The byte ring begins small and grows, up to what the geometry allows, with the traffic: a
/// connection that carries little touches few pages, and one that streams gets a ring larger than
/// the first-level cache, which makes it fast (docs/performance.md); one that goes on streaming
/// gets all.
class ChannelWriter {
  public:
    /// More of the byte ring has only a connection that streams: there may be many others.
    static constexpr std::uint32_t ring_bytes_of_all = 128 * 1024;

    explicit ChannelWriter(const Direction& direction, std::uint64_t stream = 0)
        : direction_(direction),
          line_mask_(direction.geometry.frame_lines - 1),
          current_(reinterpret_cast<std::byte*>(&direction.lines[0])),
          ring_limit_(direction.geometry.ring_bytes()),
          ring_end_(std::min(ring_limit_, first_ring_bytes)),
          chunk_lines_(std::size_t{direction.geometry.frame_lines} * line_cells),
          stream_(stream) {}

    /// Is there room for a frame of `payload_bytes` (at most max_inline_bytes)? Then publish() must
    /// follow before the next reserve().
    [[nodiscard]] bool reserve(std::uint32_t payload_bytes) noexcept {
        const std::uint32_t cells = cells_for(payload_bytes);
        if (cell_ + cells > line_cells) {
            if (!line_free(line_ + 1)) return false;
            pad_line();
        } else if (cell_ == 0 && !line_free(line_)) {
            return false;
        }
        return true;
    }

    void publish(FrameKind kind, std::uint8_t flags, const void* payload,
                 std::uint32_t payload_bytes, std::uint32_t argument) noexcept {
        std::uint32_t cells = cells_for(payload_bytes);
        // Everything written before (data in the byte ring, RDMA) comes before the frame.
        std::atomic_thread_fence(std::memory_order_release);
        const auto* from = static_cast<const std::byte*>(payload);
        Cell* cell = current();
        if (cells != 1) {
            // What is left of the line behind it is too short for another of its length. The frame
            // takes it, or the receiver would have to look at this line again to find it padded.
            if (line_cells - cell_ < 2 * cells) cells = line_cells - cell_;
            store_further_cells(cell, from, payload_bytes, cells);
        }
        std::uint64_t first = 0;
        if (payload_bytes >= first_cell_payload) [[likely]]
            std::memcpy(&first, from, first_cell_payload);
        else
            copy_small(reinterpret_cast<std::byte*>(&first), from, payload_bytes);
        base::store_together(cell->payload, cell->header, first,
                             encode({kind, static_cast<std::uint8_t>(cells), flags,
                                     static_cast<std::uint16_t>(payload_bytes), argument},
                                    lap_));
        advance(cell, cells);
    }

    /// The same for a payload in `line_words` words, zeros behind it. Cells are made of words by
    /// shifts: bytes that were just stored in other pieces would have to be waited for.
    void publish_words(FrameKind kind, std::uint8_t flags, const std::uint64_t* words,
                       std::uint32_t payload_bytes, std::uint32_t argument) noexcept {
        std::uint32_t cells = cells_for(payload_bytes);
        std::atomic_thread_fence(std::memory_order_release);
        if (cells != 1 && line_cells - cell_ < 2 * cells) cells = line_cells - cell_;
        const std::uint64_t tag = encode_tag(FrameKind::Continuation, 1, lap_);
        Cell* cell = current();
        const auto store = [&](std::uint32_t which, std::uint64_t low, std::uint64_t high) {
            base::store_together(cell[which].payload, cell[which].header, low,
                                 (high & payload_of_tagged_word) | tag);
        };
        static_assert(line_cells == 4 && first_cell_payload == 8 && further_cell_payload == 15);
        if (cells > 1) store(1, words[1], words[2]);
        if (cells > 2) store(2, words[2] >> 56 | words[3] << 8, words[3] >> 56 | words[4] << 8);
        if (cells > 3) store(3, words[4] >> 48 | words[5] << 16, words[5] >> 48 | words[6] << 16);
        base::store_together(cell->payload, cell->header, words[0],
                             encode({kind, static_cast<std::uint8_t>(cells), flags,
                                     static_cast<std::uint16_t>(payload_bytes), argument},
                                    lap_));
        advance(cell, cells);
    }

    /// The commonest frame of all: a headed one with a word and up to 15 bytes in two cells. False:
    /// there is no room for two cells here, or they would leave one. `before` is called only if it
    /// will be published.
    template <class Before>
    [[nodiscard]] bool publish_short_headed(std::uint64_t head, std::uint64_t low,
                                            std::uint64_t high, std::uint32_t payload_bytes,
                                            std::uint32_t note, Before before) noexcept {
        if (cell_ % 2 != 0 || (cell_ == 0 && !line_free(line_))) [[unlikely]]
            return false;
        before();
        std::atomic_thread_fence(std::memory_order_release);
        Cell* cell = current();
        const std::uint64_t lap = lap_ ? lap_bit : 0;
        base::store_together(cell[1].payload, cell[1].header, low,
                             high | encode_tag(FrameKind::Continuation, 1, false) | lap);
        base::store_together(
            cell->payload, cell->header, head,
            short_headed_tag | lap |
                static_cast<std::uint64_t>(payload_bytes + sizeof head) << length_shift | note);
        advance(cell, 2);
        return true;
    }

    struct Place {
        std::byte* at = nullptr;  ///< null: no room now
        RingChunk chunk;
    };
    /// Room in the byte ring, in one piece and from the start of a cache line. It is taken when
    /// take_place() is called; then a frame that names the chunk must follow.
    [[nodiscard]] Place find_place(std::uint32_t bytes) noexcept {
        const std::uint32_t rounded = round_to_line(bytes);
        if (!fits_here(rounded)) [[unlikely]] {
            refresh();
            if (!fits_here(rounded) && !move_on(rounded)) return {};
        }
        return {direction_.ring + ring_offset_,
                {static_cast<std::uint16_t>(ring_offset_ / base::cache_line),
                 static_cast<std::uint16_t>(bytes)}};
    }
    void take_place(const Place& place) noexcept {
        chunk_lines_[chunks_ % chunk_lines_.size()] = place.chunk.line;
        ++chunks_;
        ring_offset_ += round_to_line(place.chunk.bytes);
    }

    /// The longest chunk that always finds room in the end.
    [[nodiscard]] std::uint32_t longest_chunk() const noexcept {
        return std::min({ring_limit_ / 4, ring_bytes_of_all / 4, max_chunk_bytes});
    }
    [[nodiscard]] DirectionControl& control() noexcept { return *direction_.control; }
    /// For tracers, before a frame is published that is a message, or its beginning, or tells of
    /// one. The reader will be at the same line, and at a cell that has the same place in it.
    [[gnu::always_inline]] void probe_send([[maybe_unused]] std::uint32_t bytes,
                                           [[maybe_unused]] base::DataPath way) const noexcept {
        VIA_PROBE_SEND(stream_, line_, current_, bytes, way);
    }
    [[gnu::always_inline]] void probe_doorbell([[maybe_unused]] std::uint32_t whom) const noexcept {
        VIA_PROBE_DOORBELL(stream_, whom);
    }
    /// For the next chunk, if it will be as long: the receiver had these lines a lap ago.
    void fetch_next_place(std::uint32_t bytes) const noexcept {
        constexpr std::uint32_t most = 8 * base::cache_line;
        ask_for_lines(direction_.ring + ring_offset_,
                      std::min({bytes, most, ring_end_ - ring_offset_}));
    }
    /// For QueuePair::next_frame.
    [[nodiscard]] const PlaceAhead& next_frame() const noexcept { return current_; }
    /// For a writer of many frames: the receiver had the line after this one a lap ago. It comes
    /// while this one is filled, or stores would wait for it.
    void fetch_next_line() const noexcept {
        base::prefetch_for_write(&direction_.lines[(line_ + 1) & line_mask_]);
    }

  private:
    static constexpr std::uint32_t first_ring_bytes = 8192;
    static constexpr std::uint32_t rounds_before_growth = 4;
    static constexpr std::uint32_t rounds_of_a_stream = 64;

    [[nodiscard]] Cell* current() const noexcept {
        return reinterpret_cast<Cell*>(current_.load(std::memory_order_relaxed));
    }
    void go_to(Cell* cell) noexcept {
        current_.store(reinterpret_cast<std::byte*>(cell), std::memory_order_relaxed);
    }
    /// Behind a frame that began at `cell`, the current one.
    void advance(Cell* cell, std::uint32_t cells) noexcept {
        cell_ += cells;
        if (cell_ == line_cells)
            next_line();
        else
            go_to(cell + cells);
    }
    void next_line() noexcept {
        cell_ = 0;
        ++line_;
        go_to(&direction_.lines[line_ & line_mask_].cells[0]);
        if ((line_ & line_mask_) == 0) lap_ = !lap_;
    }
    void store_further_cells(Cell* cell, const std::byte* from, std::uint32_t bytes,
                             std::uint32_t cells) noexcept {
        const std::uint64_t tag = encode_tag(FrameKind::Continuation, 1, lap_);
        const Cell* end = cell + cells;
        for (std::uint32_t at = first_cell_payload; at < bytes; at += further_cell_payload) {
            std::uint64_t words[2] = {0, 0};
            const std::uint32_t left = bytes - at;
            // One byte more than belongs to the cell, where it is there, makes it one load.
            if (left > further_cell_payload) [[likely]]
                std::memcpy(words, from + at, cell_bytes);
            else
                copy_small(reinterpret_cast<std::byte*>(words), from + at, left);
            ++cell;
            base::store_together(cell->payload, cell->header, words[0],
                                 (words[1] & payload_of_tagged_word) | tag);
        }
        while (++cell != end)
            cell->header.store(tag, std::memory_order_relaxed);
    }
    /// Every cell is written in every lap, so that none looks new two laps later.
    void pad_line() noexcept {
        for (Cell* cell = current(); cell_ != line_cells; ++cell_, ++cell)
            cell->header.store(encode({FrameKind::Pad, 1, 0, 0, 0}, lap_),
                               std::memory_order_release);
        next_line();
    }
    [[nodiscard]] bool line_free(std::uint64_t number) noexcept {
        if (number - lines_consumed_ <= line_mask_) [[likely]]
            return true;
        refresh();
        return number - lines_consumed_ <= line_mask_;
    }

    /// Where the oldest chunk under way begins; with none, where the next one will.
    [[nodiscard]] std::uint32_t oldest_offset() const noexcept {
        if (chunks_ == chunks_consumed_) return ring_offset_;
        return static_cast<std::uint32_t>(chunk_lines_[chunks_consumed_ % chunk_lines_.size()] *
                                          base::cache_line);
    }
    [[nodiscard]] bool fits_here(std::uint32_t rounded) const noexcept {
        if (chunks_ - chunks_consumed_ >= chunk_lines_.size()) return false;
        const std::uint32_t oldest = oldest_offset();
        // One line stays free, or full would look like empty.
        if (ring_offset_ < oldest) return rounded < oldest - ring_offset_;
        if (ring_offset_ == oldest && chunks_ != chunks_consumed_) return false;
        return rounded <= ring_end_ - ring_offset_;
    }
    /// It does not fit between here and the end of the ring: back to its start, or let it grow.
    [[nodiscard]] bool move_on(std::uint32_t rounded) noexcept {
        const std::uint32_t oldest = oldest_offset();
        const bool empty = chunks_ == chunks_consumed_;
        if (chunks_ - chunks_consumed_ >= chunk_lines_.size() || (!empty && ring_offset_ <= oldest))
            return false;
        const bool start_is_free = empty ? rounded <= ring_end_ : rounded < oldest;
        if (start_is_free) ++rounds_;
        const bool grows = ring_end_ < ring_bytes_of_all
                               ? !start_is_free || rounds_ == rounds_before_growth
                               : rounds_ >= rounds_of_a_stream;
        if (ring_end_ != ring_limit_ && grows) {
            ring_end_ = std::min(ring_limit_, 2 * ring_end_);
            rounds_ = 0;
            return fits_here(rounded) || move_on(rounded);
        }
        if (start_is_free) ring_offset_ = 0;
        return start_is_free;
    }
    void refresh() noexcept {
        const std::uint64_t lines =
            direction_.control->consumed.lines.load(std::memory_order_acquire);
        const std::uint64_t chunks =
            direction_.control->consumed.chunks.load(std::memory_order_acquire);
        if (lines >= lines_consumed_ && lines <= line_) lines_consumed_ = lines;
        if (chunks >= chunks_consumed_ && chunks <= chunks_) chunks_consumed_ = chunks;
    }

    Direction direction_;
    std::uint64_t line_mask_;
    PlaceAhead current_;  ///< where the next frame begins
    std::uint64_t line_ = 0;
    std::uint32_t cell_ = 0;
    bool lap_ = true;
    std::uint64_t lines_consumed_ = 0;

    std::uint32_t ring_limit_;
    std::uint32_t ring_end_;         ///< how much of the byte ring is in use
    std::uint32_t ring_offset_ = 0;  ///< of the next chunk
    std::uint32_t rounds_ = 0;       ///< through the ring, since it grew
    std::uint64_t chunks_ = 0;
    std::uint64_t chunks_consumed_ = 0;
    std::vector<std::uint16_t> chunk_lines_;  ///< where the chunks under way begin
    std::uint64_t stream_;                    ///< what tracers know it by, as of the reader
};

/// The consumer's end. What it reads can be overwritten by the peer at any time: headers are
/// taken once and checked, payloads copied once.
class ChannelReader {
  public:
    explicit ChannelReader(const Direction& direction, std::uint64_t stream = 0) noexcept
        : direction_(direction),
          line_mask_(direction.geometry.frame_lines - 1),
          current_(&direction.lines[0].cells[0]),
          ring_bytes_(direction.geometry.ring_bytes()),
          stream_(stream) {}

    enum class Look { Nothing, Frame, Nonsense };

    /// What stands where the next frame will be, as one number: 0 to 31 a kind, alone in its cell
    /// (0: nothing); up to 255 something else, perhaps of the last lap.
    [[nodiscard]] std::uint64_t peek(std::uint64_t& word) const noexcept {
        word = current()->header.load(std::memory_order_relaxed);
        return (word >> tag_shift) ^ (lap() ? 0x20U : 0U);
    }
    [[nodiscard]] static bool is_arrival(std::uint64_t peeked) noexcept {
        return (peeked & 0x3F) - 1 < 0x1F;
    }
    /// The payload of a one-cell frame that was peeked at.
    [[nodiscard]] std::uint64_t small_payload() const noexcept {
        std::atomic_thread_fence(std::memory_order_acquire);
        return current()->payload.load(std::memory_order_relaxed);
    }
    /// The next frame, if there is one and all of it.
    [[nodiscard]] Look look(FrameHeader& header) noexcept {
        for (;;) {
            const Cell* cell = current();
            const std::uint64_t word = base::load_then_order(
                cell->header, [&](auto value) { return is_present(value, lap()); });
            if (!is_present(word, lap())) [[likely]]
                return Look::Nothing;
            header = decode(word);
            if (!is_sound(header, cell_number(cell))) [[unlikely]]
                return Look::Nonsense;
            if (header.kind == FrameKind::Pad) [[unlikely]] {
                // Whole lines are never padded, or a peer could keep this loop going.
                if (cell_number(cell) == 0 || header.cells != 1) return Look::Nonsense;
                advance(header);
                continue;
            }
            for (std::uint32_t i = 1; i < header.cells; ++i) {
                const std::uint64_t further =
                    base::load_then_order(cell[i].header, [](auto) { return true; });
                if (!is_continuation(further, lap())) return Look::Nothing;
            }
            return Look::Frame;
        }
    }
    /// For a reader that is behind: the line after the one it reads is likely written already.
    void fetch_next_line() const noexcept {
        base::prefetch_for_read(reinterpret_cast<const std::byte*>(current()) + sizeof(FrameLine));
    }
    struct ShortHeaded {
        std::uint64_t head;
        std::uint64_t payload[2];
        std::uint32_t payload_bytes;
        std::uint32_t note;
    };
    /// Is the next frame of the commonest kind (ChannelWriter::publish_short_headed), and all of it
    /// there? Nothing is taken.
    [[nodiscard]] bool look_for_short_headed(ShortHeaded& found) const noexcept {
        const Cell* cell = current();
        const std::uint64_t lap_now = lap() ? lap_bit : 0;
        const auto is_it = [&](std::uint64_t word) {
            return ((word ^ (short_headed_tag | lap_now)) >> flags_shift) == 0;
        };
        const std::uint64_t word = base::load_then_order(cell->header, is_it);
        if (!is_it(word) || cell_number(cell) > line_cells - 2) return false;
        const std::uint64_t tag = encode_tag(FrameKind::Continuation, 1, false) | lap_now;
        const auto belongs = [&](std::uint64_t further) {
            return ((further ^ tag) & ~payload_of_tagged_word) == 0;
        };
        const std::uint64_t further = base::load_then_order(cell[1].header, belongs);
        found.payload_bytes = static_cast<std::uint16_t>(word >> length_shift) -
                              static_cast<std::uint32_t>(sizeof found.head);
        if (!belongs(further) || found.payload_bytes > further_cell_payload) return false;
        found.head = cell->payload.load(std::memory_order_relaxed);
        found.payload[0] = cell[1].payload.load(std::memory_order_relaxed);
        found.payload[1] = further & payload_of_tagged_word;
        found.note = static_cast<std::uint32_t>(word);
        return true;
    }
    /// A look without taking a pad or any other state: safe from another thread than the reader's
    /// as long as the endpoint lives.
    [[nodiscard]] bool arrival_visible() const noexcept {
        const std::uint64_t seen = current()->header.load(std::memory_order_relaxed);
        return is_present(seen, lap_.load(std::memory_order_relaxed));
    }

    /// The first `bytes` of the frame's payload, at most as many as its cells hold.
    void read_payload(std::byte* to, std::uint32_t bytes) const noexcept {
        const Cell* cell = current();
        const std::uint64_t first = cell->payload.load(std::memory_order_relaxed);
        if (bytes < first_cell_payload) {
            copy_small(to, reinterpret_cast<const std::byte*>(&first), bytes);
            return;
        }
        std::memcpy(to, &first, first_cell_payload);
        for (std::uint32_t at = first_cell_payload; at < bytes; at += further_cell_payload) {
            ++cell;
            const std::uint64_t words[2] = {cell->payload.load(std::memory_order_relaxed),
                                            cell->header.load(std::memory_order_relaxed)};
            const std::uint32_t left = bytes - at;
            // The byte too many is overwritten by the next cell's.
            if (left > further_cell_payload) [[likely]]
                std::memcpy(to + at, words, cell_bytes);
            else
                copy_small(to + at, reinterpret_cast<const std::byte*>(words), left);
        }
    }

    /// All of the frame's payload, and what lies behind it in its cells, as words that can be read
    /// one by one without waiting.
    void read_words(std::uint64_t* to, std::uint32_t cells) const noexcept {
        const Cell* cell = current();
        const auto low = [&](std::uint32_t which) {
            return cell[which].payload.load(std::memory_order_relaxed);
        };
        const auto high = [&](std::uint32_t which) {
            return cell[which].header.load(std::memory_order_relaxed) & payload_of_tagged_word;
        };
        to[0] = low(0);
        if (cells == 1) return;
        const std::uint64_t high1 = high(1);
        to[1] = low(1);
        to[2] = high1;
        if (cells == 2) return;
        const std::uint64_t low2 = low(2), high2 = high(2);
        to[2] = high1 | low2 << 56;
        to[3] = low2 >> 8 | high2 << 56;
        to[4] = high2 >> 8;
        if (cells == 3) return;
        const std::uint64_t low3 = low(3), high3 = high(3);
        to[4] = high2 >> 8 | low3 << 48;
        to[5] = low3 >> 16 | high3 << 48;
        to[6] = high3 >> 16;
    }

    void advance(const FrameHeader& header) noexcept {
        Cell* next = current() + header.cells;
        if (reinterpret_cast<std::uintptr_t>(next) % sizeof(FrameLine) == 0) [[unlikely]]
            next = next_line();
        current_.store(next, std::memory_order_relaxed);
    }

    /// The chunk's bytes, or null if it does not lie in the ring.
    [[nodiscard]] const std::byte* chunk(const RingChunk& chunk) noexcept {
        const auto first = static_cast<std::uint32_t>(chunk.line * base::cache_line);
        if (chunk.bytes == 0 || first >= ring_bytes_ || chunk.bytes > ring_bytes_ - first)
            return nullptr;
        seen_end_ = std::max(seen_end_, first + chunk.bytes);
        return direction_.ring + first;
    }
    void chunk_done(const RingChunk& chunk) noexcept {
        ++chunks_;
        bytes_done_ += round_to_line(chunk.bytes);
        if (bytes_done_ >= seen_end_ / 8) publish();
    }

    /// The reader has nothing to do: the writer may need what it has not been told of yet for one
    /// long chunk.
    void publish_the_rest() noexcept {
        if (bytes_done_ != 0) publish();
    }

    [[nodiscard]] DirectionControl& control() noexcept { return *direction_.control; }
    /// For tracers, before advance() leaves the frame in which a message came.
    [[gnu::always_inline]] void probe_receive([[maybe_unused]] std::uint32_t bytes,
                                              [[maybe_unused]] base::DataPath way) const noexcept {
        VIA_PROBE_RECEIVE(stream_, line_, current_, bytes, way);
    }
    /// The same for one that began in an earlier frame.
    struct Position {
        std::uint64_t line = 0;
        const Cell* cell = nullptr;
    };
    [[nodiscard]] Position position() const noexcept { return {line_, current()}; }
    void probe_receive([[maybe_unused]] const Position& begun, [[maybe_unused]] std::uint32_t bytes,
                       [[maybe_unused]] base::DataPath way) const noexcept {
        VIA_PROBE_RECEIVE(stream_, begun.line, begun.cell, bytes, way);
    }

  private:
    [[nodiscard]] Cell* current() const noexcept {
        return current_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] bool lap() const noexcept { return lap_.load(std::memory_order_relaxed); }
    [[nodiscard]] static std::uint32_t cell_number(const Cell* cell) noexcept {
        return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(cell) / cell_bytes %
                                          line_cells);
    }
    [[nodiscard]] Cell* next_line() noexcept {
        ++line_;
        if ((line_ & line_mask_) == 0) lap_.store(!lap(), std::memory_order_relaxed);
        if (line_ - lines_published_ >= (line_mask_ + 1) / 4) publish();
        return &direction_.lines[line_ & line_mask_].cells[0];
    }
    void publish() noexcept {
        direction_.control->consumed.chunks.store(chunks_, std::memory_order_release);
        direction_.control->consumed.lines.store(line_, std::memory_order_release);
        lines_published_ = line_;
        bytes_done_ = 0;
    }

    Direction direction_;
    std::uint64_t line_mask_;
    std::uint64_t line_ = 0;
    // Where the next frame begins, and what is new there. Other threads look, too.
    std::atomic<Cell*> current_;
    std::atomic<bool> lap_{true};
    std::uint64_t lines_published_ = 0;
    std::uint32_t ring_bytes_;
    std::uint32_t seen_end_ = 0;    ///< how much of the byte ring the writer uses
    std::uint32_t bytes_done_ = 0;  ///< since the writer was last told
    std::uint64_t chunks_ = 0;
    std::uint64_t stream_;  ///< what tracers know it by
};

}  // namespace via::na::shm
