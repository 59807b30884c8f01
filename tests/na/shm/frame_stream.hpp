// SPDX-License-Identifier: BSD-3-Clause
// An endless stream of frames and chunks of all sizes that both ends of a channel can derive from
// one seed: the consumer knows every byte that must come.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "na/seeded.hpp"
#include "na/shm/channel.hpp"

namespace via::test {

struct StreamItem {
    na::shm::FrameKind kind = na::shm::FrameKind::Inline;
    std::uint8_t flags = 0;
    std::uint32_t argument = 0;
    std::uint32_t payload = 0;  ///< bytes in the frame; with a chunk they begin with its place
    std::uint32_t chunk = 0;    ///< bytes in the byte ring, 0: none
    std::uint64_t number = 0;
};

class FrameStream {
  public:
    FrameStream(std::uint64_t seed, std::uint32_t max_chunk)
        : random_(seed), max_chunk_(max_chunk) {}

    [[nodiscard]] StreamItem next() {
        using na::shm::FrameKind;
        StreamItem item;
        item.number = number_++;
        item.argument = static_cast<std::uint32_t>(random_.next());
        item.flags = static_cast<std::uint8_t>(random_.next());
        const auto kinds = static_cast<std::uint32_t>(FrameKind::Last) - 1;
        // All but None and Pad, and most often what most frames are.
        item.kind = random_.one_in(2) ? FrameKind::Inline
                                      : static_cast<FrameKind>(2 + random_.below(kinds));
        // Long runs of one size meet other edges than a mixture.
        if (run_ == 0) {
            run_ = random_.between(1, 40);
            run_size_ = random_.one_in(3) ? random_.between(0, na::shm::max_inline_bytes) : mixture;
        }
        --run_;
        item.payload =
            run_size_ == mixture ? random_.between(0, na::shm::max_inline_bytes) : run_size_;
        if (random_.one_in(4)) {
            item.payload =
                std::max(item.payload, static_cast<std::uint32_t>(sizeof(na::shm::RingChunk)));
            item.chunk =
                random_.one_in(4) ? random_.between(1, 130) : random_.between(1, max_chunk_);
        }
        return item;
    }

  private:
    static constexpr std::uint32_t mixture = ~0U;
    Random random_;
    std::uint32_t max_chunk_;
    std::uint64_t number_ = 0;
    std::uint32_t run_ = 0;
    std::uint32_t run_size_ = mixture;
};

/// Writes a stream into a channel, as far as there is room.
class StreamProducer {
  public:
    StreamProducer(const na::shm::Direction& direction, std::uint64_t seed, std::uint32_t max_chunk)
        : writer(direction), stream_(seed, max_chunk), item_(stream_.next()) {}

    /// False: no room for the next item.
    bool step() {
        na::shm::ChannelWriter::Place place;
        if (item_.chunk != 0) {
            place = writer.find_place(item_.chunk);
            if (place.at == nullptr) {
                ++ring_full;
                return false;
            }
        }
        if (!writer.reserve(item_.payload)) {
            ++frames_full;
            return false;
        }
        std::array<std::byte, na::shm::max_inline_bytes> payload;
        fill_pattern(payload, item_.number);
        if (item_.chunk != 0) {
            std::memcpy(payload.data(), &place.chunk, sizeof place.chunk);
            fill_pattern({place.at, item_.chunk}, ~item_.number);
            writer.take_place(place);
        }
        writer.publish(item_.kind, item_.flags, payload.data(), item_.payload, item_.argument);
        item_ = stream_.next();
        ++written;
        return true;
    }

    na::shm::ChannelWriter writer;
    std::uint64_t written = 0;
    std::uint64_t ring_full = 0;
    std::uint64_t frames_full = 0;

  private:
    FrameStream stream_;
    StreamItem item_;
};

/// Reads it and checks every byte.
class StreamConsumer {
  public:
    StreamConsumer(const na::shm::Direction& direction, std::uint64_t seed, std::uint32_t max_chunk)
        : reader(direction), stream_(seed, max_chunk), item_(stream_.next()) {}

    enum class Step { Nothing, Good, Wrong };

    Step step() {
        using na::shm::ChannelReader;
        using na::shm::FrameKind;
        na::shm::FrameHeader frame;
        // Messages of one cell may be taken without a look.
        std::uint64_t word = 0;
        const bool at_a_glance = item_.chunk == 0 && item_.number % 3 != 0 &&
                                 reader.peek(word) == static_cast<std::uint64_t>(FrameKind::Inline);
        const auto look = at_a_glance ? ChannelReader::Look::Frame : reader.look(frame);
        if (look == ChannelReader::Look::Nothing) {
            reader.publish_the_rest();
            return Step::Nothing;
        }
        if (at_a_glance) frame = na::shm::decode(word);
        const StreamItem item = std::exchange(item_, stream_.next());
        const auto wrong = [&](const char* what) {
            ADD_FAILURE() << "item " << item.number << ": " << what;
            return Step::Wrong;
        };
        if (look != ChannelReader::Look::Frame) return wrong("nonsense");
        if (!reader.arrival_visible()) return wrong("not visible to others");
        const std::uint64_t there = reader.peek(word);
        if (!ChannelReader::is_arrival(there)) return wrong("not there at a glance");
        if ((there == static_cast<std::uint64_t>(item.kind)) != (frame.cells == 1))
            return wrong("another kind at a glance");
        if (frame.kind != item.kind || frame.flags != item.flags || frame.length != item.payload ||
            frame.argument != item.argument)
            return wrong("another header");
        std::array<std::byte, na::shm::max_inline_bytes> payload;
        if (at_a_glance) {
            const std::uint64_t small = reader.small_payload();
            std::memcpy(payload.data(), &small, item.payload);
        } else {
            reader.read_payload(payload.data(), item.payload);
        }
        na::shm::RingChunk chunk;
        const std::size_t named = item.chunk != 0 ? sizeof chunk : 0;
        if (named != 0) std::memcpy(&chunk, payload.data(), sizeof chunk);
        if (matching_bytes(std::span(payload).first(item.payload).subspan(named), item.number,
                           named) != item.payload - named)
            return wrong("another payload");
        if (item.chunk != 0) {
            if (chunk.bytes != item.chunk) return wrong("a chunk of another length");
            const std::byte* bytes = reader.chunk(chunk);
            if (bytes == nullptr) return wrong("chunk refused");
            if (matching_bytes({bytes, item.chunk}, ~item.number) != item.chunk)
                return wrong("other bytes");
            reader.chunk_done(chunk);
            ++chunks;
            if (chunk.line == 0 && chunks != 1) ++rounds;
            ring_seen = std::max(ring_seen, chunk.line * 64U + chunk.bytes);
        }
        reader.advance(frame);
        ++taken;
        if (at_a_glance) ++glances;
        return Step::Good;
    }

    na::shm::ChannelReader reader;
    std::uint64_t taken = 0;
    std::uint64_t glances = 0;  ///< messages taken without a look
    std::uint64_t chunks = 0;
    std::uint64_t rounds = 0;     ///< how often chunks began again at the start of the ring
    std::uint32_t ring_seen = 0;  ///< how much of the ring they have used

  private:
    FrameStream stream_;
    StreamItem item_;
};

}  // namespace via::test
