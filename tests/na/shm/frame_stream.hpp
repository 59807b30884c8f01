// SPDX-License-Identifier: BSD-3-Clause
// An endless stream of frames and chunks of all sizes that both ends of a channel can derive from
// one seed: the consumer knows every byte that must come.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "na/seeded.hpp"
#include "na/shm/channel.hpp"

namespace via::test {

struct StreamItem {
    na::shm::FrameKind kind = na::shm::FrameKind::Inline;
    std::uint8_t flags = 0;
    std::uint32_t argument = 0;
    std::uint32_t payload = 0;  ///< bytes in the frame
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
        item.kind = static_cast<FrameKind>(2 + random_.below(kinds));  // all but None and Pad
        // Long runs of one size meet other edges than a mixture.
        if (run_ == 0) {
            run_ = random_.between(1, 40);
            run_size_ = random_.one_in(3) ? random_.between(0, na::shm::max_inline_bytes) : mixture;
        }
        --run_;
        item.payload =
            run_size_ == mixture ? random_.between(0, na::shm::max_inline_bytes) : run_size_;
        if (random_.one_in(4)) {
            item.payload = std::max<std::uint32_t>(item.payload, 8);
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
        if (item_.chunk != 0 &&
            writer.ring_free() < na::shm::ChannelWriter::round_to_line(item_.chunk) &&
            writer.ring_free_refreshed() < na::shm::ChannelWriter::round_to_line(item_.chunk)) {
            ++ring_full;
            return false;
        }
        std::byte* to = writer.reserve(item_.payload);
        if (to == nullptr) {
            ++frames_full;
            return false;
        }
        std::array<std::byte, na::shm::max_inline_bytes> payload;
        fill_pattern(payload, item_.number);
        std::memcpy(to, payload.data(), item_.payload);
        if (item_.chunk != 0) {
            std::vector<std::byte> bytes(item_.chunk);
            fill_pattern(bytes, ~item_.number);
            // In two parts, as a gather list of two segments comes.
            const auto first = static_cast<std::uint32_t>(item_.number % (item_.chunk + 1));
            writer.put(0, bytes.data(), first);
            writer.put(first, bytes.data() + first, item_.chunk - first);
            writer.chunk_done(item_.chunk);
        }
        writer.publish(item_.kind, item_.flags, item_.payload, item_.argument);
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
        : reader(direction), stream_(seed, max_chunk) {
        reader.watch();
    }

    enum class Step { Nothing, Good, Wrong };

    Step step() {
        na::shm::FrameHeader frame;
        const auto look = reader.look(frame);
        if (look == na::shm::ChannelReader::Look::Nothing) return Step::Nothing;
        const StreamItem item = stream_.next();
        const auto wrong = [&](const char* what) {
            ADD_FAILURE() << "item " << item.number << ": " << what;
            return Step::Wrong;
        };
        if (look != na::shm::ChannelReader::Look::Frame) return wrong("nonsense");
        if (!reader.arrival_visible()) return wrong("not visible to others");
        if (frame.kind != item.kind || frame.flags != item.flags || frame.length != item.payload ||
            frame.argument != item.argument)
            return wrong("another header");
        if (matching_bytes({reader.payload(), item.payload}, item.number) != item.payload)
            return wrong("another payload");
        if (item.chunk != 0) {
            if (!reader.chunk_sound(item.chunk)) return wrong("chunk refused");
            const auto split = static_cast<std::uint32_t>(item.number * 31 % (item.chunk + 1));
            std::vector<std::byte> bytes(item.chunk);
            reader.take(0, bytes.data(), split);
            reader.take(split, bytes.data() + split, item.chunk - split);
            if (matching_bytes(bytes, ~item.number) != bytes.size()) return wrong("other bytes");
            const std::byte* in_place = reader.chunk_in_place(item.chunk);
            if (in_place != nullptr) {
                ++in_place_chunks;
                if (matching_bytes({in_place, item.chunk}, ~item.number) != item.chunk)
                    return wrong("other bytes in place");
            } else {
                ++wrapped_chunks;
            }
            reader.chunk_done(item.chunk);
        }
        reader.advance(frame);
        ++taken;
        return Step::Good;
    }

    na::shm::ChannelReader reader;
    std::uint64_t taken = 0;
    std::uint64_t in_place_chunks = 0;
    std::uint64_t wrapped_chunks = 0;

  private:
    FrameStream stream_;
};

}  // namespace via::test
