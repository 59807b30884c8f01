// SPDX-License-Identifier: BSD-3-Clause
// The packets of a connection between hosts, byte for byte (docs/wire.md). A packet is a header and
// frames; all numbers are little-endian. Decoders trust nothing: what they return is in range.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace via::wire {

inline constexpr std::uint8_t packet_version = 4;

static_assert(std::endian::native == std::endian::little,
              "numbers travel as they lie in memory; a big-endian machine must turn them");

template <class Number>
[[nodiscard]] Number load(const std::byte* from) noexcept {
    Number value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
template <class Number>
void store(std::byte* to, Number value) noexcept {
    std::memcpy(to, &value, sizeof value);
}

/// 0 token, 4 checksum, 8 packet number, 12 version, 13 link, 14 flags, 15 see Continuation.
struct PacketHeader {
    static constexpr std::uint32_t bytes = 16;
    static constexpr std::uint32_t checksum_at = 4;
    /// What the checksum covers begins here.
    static constexpr std::uint32_t covered_from = 8;
    std::uint32_t token = 0;     ///< the receiver's name for the connection
    std::uint32_t checksum = 0;  ///< CRC32C of the rest, seeded with the connection's secret
    std::uint32_t number = 0;    ///< low half of the packet's number on its link
    std::uint8_t version = packet_version;
    std::uint8_t link = 0;
    std::uint8_t flags = 0;
    std::uint8_t message_high = 0;  ///< zero unless packet_continues
};
inline constexpr std::uint8_t packet_sealed = 1;     ///< encrypted; the tag follows the frames
inline constexpr std::uint8_t packet_continues = 2;  ///< no frames: a Continuation

enum class FrameType : std::uint8_t {
    Pad = 0,  ///< nothing follows
    Acknowledgement = 1,
    Ping = 2,
    Pong = 3,
    Close = 4,
    Closed = 5,
    Send = 8,
    RdmaWrite = 9,
    ReadRequest = 10,
    ReadData = 11,
};

/// A piece of an operation: type, flags, payload length (2), message (4), receive (4), then what
/// the type and flags call for: total and offset (8), immediate (4), address and handle (12), then
/// the payload.
struct DataFrame {
    FrameType type = FrameType::Send;
    std::uint8_t flags = 0;
    std::uint16_t length = 0;   ///< payload in this frame
    std::uint32_t message = 0;  ///< low half of the operation's number
    /// Send, RDMA write with immediate data: low half of the number of the receive it will consume.
    /// Read data: low half of the number of the read request.
    std::uint32_t receive = 0;
    std::uint32_t total = 0;  ///< bytes of the whole operation
    std::uint32_t offset = 0;
    std::uint32_t immediate = 0;
    std::uint64_t address = 0;  ///< RDMA write and read request: the target
    std::uint32_t handle = 0;

    [[nodiscard]] bool whole() const noexcept;
    [[nodiscard]] bool has_immediate() const noexcept;
    [[nodiscard]] bool apart() const noexcept;
    [[nodiscard]] bool has_target() const noexcept {
        return type == FrameType::RdmaWrite || type == FrameType::ReadRequest;
    }
};
inline constexpr std::uint8_t data_whole = 1;  ///< the payload is the operation: no total, offset
inline constexpr std::uint8_t data_immediate = 2;
/// The payload lies behind all frames of the packet, and so do those of all that follow: so a
/// sender has them in one row, without anything of its own in between.
inline constexpr std::uint8_t data_apart = 4;
inline constexpr std::uint32_t longest_data_frame_header = 36;

inline bool DataFrame::whole() const noexcept {
    return (flags & data_whole) != 0;
}
inline bool DataFrame::has_immediate() const noexcept {
    return (flags & data_immediate) != 0;
}
inline bool DataFrame::apart() const noexcept {
    return (flags & data_apart) != 0;
}

[[nodiscard]] constexpr std::uint32_t data_frame_header_bytes(FrameType type,
                                                              std::uint8_t flags) noexcept {
    return 12U + ((flags & data_whole) == 0 ? 8U : 0U) + ((flags & data_immediate) != 0 ? 4U : 0U) +
           (type == FrameType::RdmaWrite || type == FrameType::ReadRequest ? 12U : 0U);
}

/// A packet that has nothing but the middle of a long operation: behind its header come low half of
/// the message (2) and offset (4), then payload up to the packet's end. What else there is to know
/// about the operation was in frames before it. So a packet of a stream carries more than TCP's.
struct Continuation {
    static constexpr std::uint32_t bytes = 6;
    static constexpr unsigned message_bits = 24;
    std::uint32_t message = 0;  ///< so many low bits of the operation's number
    std::uint32_t offset = 0;
};

/// What has come of one link's packets. type, link, ranges, state, delay (4), delivered (4),
/// largest (4), then for each range its length and the gap below it (4 + 4).
struct AcknowledgementFrame {
    static constexpr std::uint32_t fixed_bytes = 16;
    static constexpr std::uint32_t range_bytes = 8;
    static constexpr std::uint32_t most_ranges = 16;
    struct Range {
        std::uint32_t length;  ///< packets of the range, at least 1
        std::uint32_t gap;     ///< packets missing below it, 0 in the last range
    };
    std::uint8_t link = 0;
    std::uint8_t ranges = 0;
    std::uint8_t state = 0;                ///< receiver_busy
    std::uint32_t delay_us = 0;            ///< since the largest came
    std::uint32_t delivered = 0;           ///< low half of the count of delivered operations
    std::uint32_t largest = 0;             ///< low half of the largest packet number that came
    std::array<Range, most_ranges> range;  ///< the first `ranges` of them
};
inline constexpr std::uint8_t receiver_busy = 1;  ///< MNC's RECVING: packets wait behind this one

/// type, zero (3), stamp (8): the pong repeats it.
struct PingFrame {
    static constexpr std::uint32_t bytes = 12;
    std::uint64_t stamp = 0;
};

/// type, why, zero (2), failed operation (4), its status (4).
struct CloseFrame {
    static constexpr std::uint32_t bytes = 12;
    std::uint8_t reason = 0;
    std::uint32_t message = 0;  ///< of the operation that failed, if status is not 0
    std::uint32_t status = 0;
};

// Encoders return the bytes they wrote; all are below, inline, because every packet passes here.

/// Takes frames off a packet's body one by one.
class FrameReader {
  public:
    explicit FrameReader(std::span<const std::byte> body) noexcept : rest_(body) {}

    /// The next frame's type. Empty: there is none (the end, or padding).
    [[nodiscard]] std::optional<FrameType> next() const noexcept;
    // Each takes the frame that next() has named. False: it is malformed.
    [[nodiscard]] bool take(DataFrame& frame, std::span<const std::byte>& payload) noexcept;
    [[nodiscard]] bool take(AcknowledgementFrame& frame) noexcept;
    [[nodiscard]] bool take(PingFrame& frame) noexcept;
    [[nodiscard]] bool take(CloseFrame& frame) noexcept;

  private:
    [[nodiscard]] bool find_apart() noexcept;
    std::span<const std::byte> rest_;
    std::span<const std::byte> apart_;  ///< payloads, once a frame has said that they lie apart
    bool in_apart_ = false;
};

/// The number that is meant by its low bits, near one that is known.
template <unsigned bits = 32>
[[nodiscard]] constexpr std::uint64_t expand(std::uint32_t low, std::uint64_t near) noexcept {
    constexpr unsigned unused = 32 - bits;
    const std::uint32_t shifted = (low - static_cast<std::uint32_t>(near)) << unused;
    const std::int32_t difference = static_cast<std::int32_t>(shifted) >> unused;
    const std::uint64_t result = near + static_cast<std::uint64_t>(std::int64_t{difference});
    // Nothing is below zero.
    return difference < 0 && result > near ? result + (std::uint64_t{1} << bits) : result;
}

// ---- coding -------------------------------------------------------------------------------------

// What is stored in words is soon read in the same words, by the checksum: a processor can hand a
// word on from store to load, but not one that is put together from several stores.

/// A header as it lies in a packet.
struct HeaderWords {
    std::uint64_t first = 0;
    std::uint64_t second = 0;  ///< its low half is the number
};

[[nodiscard]] constexpr HeaderWords words_of(const PacketHeader& header) noexcept {
    return {std::uint64_t{header.token} | std::uint64_t{header.checksum} << 32U,
            std::uint64_t{header.number} | std::uint64_t{header.version} << 32U |
                std::uint64_t{header.link} << 40U | std::uint64_t{header.flags} << 48U |
                std::uint64_t{header.message_high} << 56U};
}

inline void encode(std::byte* to, const HeaderWords& words) noexcept {
    store(to, words.first);
    store(to + 8, words.second);
}

inline void encode(std::byte* to, const PacketHeader& header) noexcept {
    encode(to, words_of(header));
}

inline PacketHeader decode_packet_header(const std::byte* from) noexcept {
    PacketHeader header;
    header.token = load<std::uint32_t>(from);
    header.checksum = load<std::uint32_t>(from + 4);
    header.number = load<std::uint32_t>(from + 8);
    header.version = load<std::uint8_t>(from + 12);
    header.link = load<std::uint8_t>(from + 13);
    header.flags = load<std::uint8_t>(from + 14);
    header.message_high = load<std::uint8_t>(from + 15);
    return header;
}

/// Makes a packet a continuation whose header is encoded already, without these two fields. Writes
/// two bytes beyond its own, which are the payload's.
inline void encode(std::byte* packet, const Continuation& piece) noexcept {
    const std::uint64_t high = (piece.message >> 16U) & 0xFFU;
    store(packet + 8,
          load<std::uint64_t>(packet + 8) | std::uint64_t{packet_continues} << 48U | high << 56U);
    store(packet + PacketHeader::bytes,
          std::uint64_t{piece.message & 0xFFFFU} | std::uint64_t{piece.offset} << 16U);
}

/// Empty: there is no payload. `body`: what follows the header.
inline std::optional<Continuation> decode_continuation(const PacketHeader& header,
                                                       std::span<const std::byte> body) noexcept {
    if (body.size() <= Continuation::bytes) return std::nullopt;
    return Continuation{
        std::uint32_t{load<std::uint16_t>(body.data())} | std::uint32_t{header.message_high} << 16U,
        load<std::uint32_t>(body.data() + 2)};
}

inline std::uint64_t first_word(const DataFrame& frame) noexcept {
    return std::uint64_t{static_cast<std::uint8_t>(frame.type)} | std::uint64_t{frame.flags} << 8U |
           std::uint64_t{frame.length} << 16U | std::uint64_t{frame.message} << 32U;
}

inline std::uint32_t encode(std::byte* to, const DataFrame& frame) noexcept {
    store(to, first_word(frame));
    std::byte* at = to + 12;
    if (frame.whole()) {
        store(to + 8, frame.receive);
    } else {
        store(to + 8, std::uint64_t{frame.receive} | std::uint64_t{frame.total} << 32U);
        store(at + 4, frame.offset);
        at += 8;
    }
    if (frame.has_immediate()) {
        store(at, frame.immediate);
        at += 4;
    }
    if (frame.has_target()) {
        store(at, frame.address);
        store(at + 8, frame.handle);
        at += 12;
    }
    return static_cast<std::uint32_t>(at - to);
}

/// All but the ranges.
inline void encode_fixed(std::byte* to, const AcknowledgementFrame& frame) noexcept {
    store(to, std::uint64_t{static_cast<std::uint8_t>(FrameType::Acknowledgement)} |
                  std::uint64_t{frame.link} << 8U | std::uint64_t{frame.ranges} << 16U |
                  std::uint64_t{frame.state} << 24U | std::uint64_t{frame.delay_us} << 32U);
    store(to + 8, std::uint64_t{frame.delivered} | std::uint64_t{frame.largest} << 32U);
}

inline void encode(std::byte* to, const AcknowledgementFrame::Range& range) noexcept {
    store(to, std::uint64_t{range.length} | std::uint64_t{range.gap} << 32U);
}

inline std::uint32_t encode(std::byte* to, const AcknowledgementFrame& frame) noexcept {
    encode_fixed(to, frame);
    std::byte* at = to + AcknowledgementFrame::fixed_bytes;
    for (std::uint32_t i = 0; i < frame.ranges; ++i) {
        encode(at, frame.range[i]);
        at += AcknowledgementFrame::range_bytes;
    }
    return static_cast<std::uint32_t>(at - to);
}

inline std::uint32_t encode_ping(std::byte* to, FrameType type, const PingFrame& frame) noexcept {
    std::memset(to, 0, 4);
    store(to, type);
    store(to + 4, frame.stamp);
    return PingFrame::bytes;
}

inline std::uint32_t encode_close(std::byte* to, FrameType type, const CloseFrame& frame) noexcept {
    std::memset(to, 0, 4);
    store(to, type);
    store(to + 1, frame.reason);
    store(to + 4, frame.message);
    store(to + 8, frame.status);
    return CloseFrame::bytes;
}

inline std::optional<FrameType> FrameReader::next() const noexcept {
    if (rest_.empty()) return std::nullopt;
    const auto type = static_cast<FrameType>(rest_[0]);
    if (type == FrameType::Pad) return std::nullopt;
    return type;
}

/// From here on there are frames without their payloads, as many as leave just enough for those.
inline bool FrameReader::find_apart() noexcept {
    std::size_t frames = 0;
    std::size_t payloads = 0;
    do {
        if (rest_.size() < frames + 12) return false;
        const std::byte* from = rest_.data() + frames;
        const auto type = static_cast<FrameType>(from[0]);
        const auto flags = load<std::uint8_t>(from + 1);
        if (type != FrameType::Send && type != FrameType::RdmaWrite && type != FrameType::ReadData)
            return false;
        if ((flags & data_apart) == 0) return false;
        frames += data_frame_header_bytes(type, flags);
        payloads += load<std::uint16_t>(from + 2);
        if (frames + payloads > rest_.size()) return false;
    } while (frames + payloads < rest_.size());
    apart_ = rest_.subspan(frames);
    rest_ = rest_.first(frames);
    in_apart_ = true;
    return true;
}

inline bool FrameReader::take(DataFrame& frame, std::span<const std::byte>& payload) noexcept {
    if (rest_.size() < 12) return false;
    const std::byte* from = rest_.data();
    frame.type = static_cast<FrameType>(from[0]);
    frame.flags = load<std::uint8_t>(from + 1);
    frame.length = load<std::uint16_t>(from + 2);
    frame.message = load<std::uint32_t>(from + 4);
    frame.receive = load<std::uint32_t>(from + 8);
    if ((frame.flags & ~(data_whole | data_immediate | data_apart)) != 0) return false;
    const std::uint32_t header = data_frame_header_bytes(frame.type, frame.flags);
    const bool apart = frame.apart();
    if (apart && !in_apart_ && !find_apart()) return false;
    if (rest_.size() < header + (apart ? 0U : frame.length)) return false;
    const std::byte* at = from + 12;
    if (frame.whole()) {
        frame.total = frame.length;
        frame.offset = 0;
    } else {
        frame.total = load<std::uint32_t>(at);
        frame.offset = load<std::uint32_t>(at + 4);
        at += 8;
    }
    if (frame.has_immediate()) {
        frame.immediate = load<std::uint32_t>(at);
        at += 4;
    }
    if (frame.has_target()) {
        frame.address = load<std::uint64_t>(at);
        frame.handle = load<std::uint32_t>(at + 8);
        at += 12;
    }
    if (apart) {
        payload = apart_.first(frame.length);
        apart_ = apart_.subspan(frame.length);
        rest_ = rest_.subspan(header);
    } else {
        payload = {at, frame.length};
        rest_ = rest_.subspan(header + frame.length);
    }
    return frame.type == FrameType::ReadRequest
               ? frame.length == 0 && frame.offset == 0
               : frame.offset <= frame.total && frame.length <= frame.total - frame.offset;
}

inline bool FrameReader::take(AcknowledgementFrame& frame) noexcept {
    if (rest_.size() < AcknowledgementFrame::fixed_bytes) return false;
    const std::byte* from = rest_.data();
    frame.link = load<std::uint8_t>(from + 1);
    frame.ranges = load<std::uint8_t>(from + 2);
    frame.state = load<std::uint8_t>(from + 3);
    frame.delay_us = load<std::uint32_t>(from + 4);
    frame.delivered = load<std::uint32_t>(from + 8);
    frame.largest = load<std::uint32_t>(from + 12);
    const std::uint32_t bytes =
        AcknowledgementFrame::fixed_bytes + frame.ranges * AcknowledgementFrame::range_bytes;
    if (frame.ranges > AcknowledgementFrame::most_ranges || rest_.size() < bytes) return false;
    const std::byte* at = from + AcknowledgementFrame::fixed_bytes;
    for (std::uint32_t i = 0; i < frame.ranges; ++i) {
        frame.range[i].length = load<std::uint32_t>(at);
        frame.range[i].gap = load<std::uint32_t>(at + 4);
        at += AcknowledgementFrame::range_bytes;
        if (frame.range[i].length == 0) return false;
        if ((frame.range[i].gap == 0) != (i + 1U == frame.ranges)) return false;
    }
    rest_ = rest_.subspan(bytes);
    return true;
}

inline bool FrameReader::take(PingFrame& frame) noexcept {
    if (rest_.size() < PingFrame::bytes) return false;
    frame.stamp = load<std::uint64_t>(rest_.data() + 4);
    rest_ = rest_.subspan(PingFrame::bytes);
    return true;
}

inline bool FrameReader::take(CloseFrame& frame) noexcept {
    if (rest_.size() < CloseFrame::bytes) return false;
    frame.reason = load<std::uint8_t>(rest_.data() + 1);
    frame.message = load<std::uint32_t>(rest_.data() + 4);
    frame.status = load<std::uint32_t>(rest_.data() + 8);
    rest_ = rest_.subspan(CloseFrame::bytes);
    return true;
}

}  // namespace via::wire
