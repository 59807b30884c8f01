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

inline constexpr std::uint8_t packet_version = 1;

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

/// 0 token, 4 checksum, 8 packet number, 12 version, 13 link, 14 flags, 15 zero.
struct PacketHeader {
    static constexpr std::uint32_t bytes = 16;
    /// What the checksum covers begins here.
    static constexpr std::uint32_t covered_from = 8;
    std::uint32_t token = 0;     ///< the receiver's name for the connection
    std::uint32_t checksum = 0;  ///< CRC32C of the rest, seeded with the connection's secret
    std::uint32_t number = 0;    ///< low half of the packet's number on its link
    std::uint8_t version = packet_version;
    std::uint8_t link = 0;
    std::uint8_t flags = 0;
};
inline constexpr std::uint8_t packet_sealed = 1;       ///< encrypted; the tag follows the frames
inline constexpr std::uint8_t packet_acknowledge = 2;  ///< the sender waits for the acknowledgement

void encode(std::byte* to, const PacketHeader& header) noexcept;
[[nodiscard]] PacketHeader decode_packet_header(const std::byte* from) noexcept;

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
    [[nodiscard]] bool has_target() const noexcept {
        return type == FrameType::RdmaWrite || type == FrameType::ReadRequest;
    }
};
inline constexpr std::uint8_t data_whole = 1;  ///< the payload is the operation: no total, offset
inline constexpr std::uint8_t data_immediate = 2;
inline constexpr std::uint32_t longest_data_frame_header = 36;

inline bool DataFrame::whole() const noexcept {
    return (flags & data_whole) != 0;
}
inline bool DataFrame::has_immediate() const noexcept {
    return (flags & data_immediate) != 0;
}

[[nodiscard]] constexpr std::uint32_t data_frame_header_bytes(FrameType type,
                                                              std::uint8_t flags) noexcept {
    return 12U + ((flags & data_whole) == 0 ? 8U : 0U) + ((flags & data_immediate) != 0 ? 4U : 0U) +
           (type == FrameType::RdmaWrite || type == FrameType::ReadRequest ? 12U : 0U);
}

/// What has come of one link's packets. type, link, ranges, state, delay (4), delivered (4),
/// largest (4), then for each range its length and the gap below it (4 + 4).
struct AcknowledgementFrame {
    static constexpr std::uint32_t fixed_bytes = 16;
    static constexpr std::uint32_t range_bytes = 8;
    static constexpr std::uint32_t most_ranges = 16;
    struct Range {
        std::uint32_t length = 0;  ///< packets of the range, at least 1
        std::uint32_t gap = 0;     ///< packets missing below it, 0 in the last range
    };
    std::uint8_t link = 0;
    std::uint8_t ranges = 0;
    std::uint8_t state = 0;       ///< receiver_busy
    std::uint32_t delay_us = 0;   ///< since the largest came
    std::uint32_t delivered = 0;  ///< low half of the count of delivered operations
    std::uint32_t largest = 0;    ///< low half of the largest packet number that came
    std::array<Range, most_ranges> range{};
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

// Each returns the bytes it wrote.
std::uint32_t encode(std::byte* to, const DataFrame& frame) noexcept;
std::uint32_t encode(std::byte* to, const AcknowledgementFrame& frame) noexcept;
std::uint32_t encode_ping(std::byte* to, FrameType type, const PingFrame& frame) noexcept;
std::uint32_t encode_close(std::byte* to, FrameType type, const CloseFrame& frame) noexcept;

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
    std::span<const std::byte> rest_;
};

/// The number that is meant by its low half, near one that is known.
[[nodiscard]] constexpr std::uint64_t expand(std::uint32_t low, std::uint64_t near) noexcept {
    const auto difference = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(near));
    const std::uint64_t result = near + static_cast<std::uint64_t>(std::int64_t{difference});
    // Nothing is below zero.
    return difference < 0 && result > near ? result + (std::uint64_t{1} << 32) : result;
}

}  // namespace via::wire
