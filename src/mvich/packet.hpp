// SPDX-License-Identifier: BSD-3-Clause
// The packets of the message layer, as they lie in vbufs and channels. Little-endian; docs/mpi.md
// has the table. Every packet begins with a PacketHead, which also carries the credits that are
// owed; what stands behind it depends on kind and flags, one behind the other: data, id, total,
// offset, protocol, address and handle, status, operation and datatype, remote pieces.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "mvich/order.hpp"
#include "na/nic_agent.hpp"

namespace via::mvich {

static_assert(std::endian::native == std::endian::little);

enum class PacketKind : std::uint8_t {
    Eager = 1,  ///< a whole message
    Request,    ///< begins R3, RGET and RPUT
    OkToSend,   ///< answers a Request: R3 goes ahead, RPUT with where to, RGET in part
    Data,       ///< a piece of an R3 message
    Finish,     ///< written or read is what its sender had to; or a Request is not wanted
    Delivered,  ///< what an order_delivered waits for, and the end of a remote order
    Noop,       ///< only brings credits
    Word,       ///< for connection managers
};

/// What a message is for; the low three bits of PacketHead::flags in Eager and Request.
enum class MessageClass : std::uint8_t {
    Message,
    Tagged,
    Write,
    ReadRequest,
    ReadReply,
    Atomic,
    FetchAtomic,
    CompareAtomic,
};

enum class Protocol : std::uint8_t { Eager, R3, Rget, Rput };
[[nodiscard]] constexpr std::size_t index_of(Protocol protocol) noexcept {
    return static_cast<std::size_t>(protocol);
}

inline constexpr std::uint8_t packet_class_mask = 0x07;
inline constexpr std::uint8_t packet_has_data = 0x08;
/// The sender wants Delivered; the packet names the order by `id`.
inline constexpr std::uint8_t packet_wants_delivered = 0x10;
/// Noop: all vbufs that the peer may use hold messages that nobody has asked for.
inline constexpr std::uint8_t packet_starving = 0x20;

/// Noop: the first packet in each direction. It says what packets its sender takes (`word`), and
/// brings the first credits.
inline constexpr std::uint8_t packet_hello = 0x40;

/// What the first packet says of its sender, in PacketHead::word.
struct Hello {
    std::uint32_t packet_bytes = 0;  ///< largest packet it takes
    std::uint32_t eager_bytes = 0;   ///< largest message that it can keep in a vbuf
    std::uint32_t preserve = 0;      ///< credits that it uses for control packets only
    [[nodiscard]] constexpr std::uint64_t word() const noexcept {
        return std::uint64_t{preserve} << 48 | std::uint64_t{eager_bytes} << 24 | packet_bytes;
    }
    [[nodiscard]] static constexpr Hello of(std::uint64_t word) noexcept {
        return {static_cast<std::uint32_t>(word & 0xFFFFFF),
                static_cast<std::uint32_t>(word >> 24 & 0xFFFFFF),
                static_cast<std::uint32_t>(word >> 48)};
    }
};

/// Names an order under way at one end, in packets of both: index, and generation in the high half.
using OrderId = std::uint64_t;
/// Set in the names of receives, not of sends.
inline constexpr OrderId receive_id_bit = OrderId{1} << 63;

struct PacketHead {
    std::uint8_t kind = 0;
    std::uint8_t flags = 0;
    std::uint16_t credits = 0;
    std::uint32_t bytes = 0;  ///< of payload, behind everything else
    std::uint64_t word = 0;   ///< Eager, Request: tag (ReadReply: OrderId). Others: OrderId
};
static_assert(sizeof(PacketHead) == 16);

/// A packet taken apart. Fields that its kind does not have are zero.
struct Packet {
    PacketHead head;
    std::uint64_t data = 0;  ///< Eager, Request with packet_has_data
    /// Eager with packet_wants_delivered, every Request, and classes from Write on: the sender's.
    /// OkToSend: the receiver's.
    OrderId id = 0;
    /// Request: bytes of the message. ReadRequest: bytes wanted. OkToSend: bytes that the receiver
    /// has room for, which may be fewer than the message has.
    std::uint64_t total = 0;
    std::uint64_t offset = 0;   ///< Data
    std::uint64_t address = 0;  ///< Request by RGET, OkToSend for RPUT and RGET
    std::uint32_t handle = 0;
    Protocol protocol = Protocol::Eager;  ///< Request, OkToSend
    Status status = Status::Ok;           ///< Finish, Delivered
    std::uint8_t operation = 0;           ///< atomics
    std::uint8_t datatype = 0;
    std::uint8_t remote_pieces = 0;  ///< Write, ReadRequest, atomics
    std::array<RemotePiece, max_remote_pieces> remote{};
    std::span<const std::byte> payload;

    [[nodiscard]] PacketKind kind() const noexcept { return static_cast<PacketKind>(head.kind); }
    [[nodiscard]] MessageClass message_class() const noexcept {
        return static_cast<MessageClass>(head.flags & packet_class_mask);
    }
};

/// Of everything before the payload.
inline constexpr std::size_t max_packet_head_bytes = 192;

/// Writes all but the payload; the bytes written. `packet.payload` only tells its length.
[[nodiscard]] std::size_t encode(const Packet& packet,
                                 std::span<std::byte, max_packet_head_bytes> to) noexcept;
/// Nothing: no peer of this version writes such a thing. The payload lies in `bytes`, which a peer
/// may be writing: all else is copied before it is looked at.
[[nodiscard]] std::optional<Packet> decode(std::span<const std::byte> bytes) noexcept;

/// The commonest packet by itself: Eager, of class Message or Tagged, that wants no Delivered.
struct PlainEager {
    MessageClass message_class = MessageClass::Tagged;
    bool has_data = false;
    std::uint16_t credits = 0;
    std::uint64_t tag = 0;
    std::uint64_t data = 0;
    std::span<const std::byte> payload;  ///< to encode: only its length counts
};
inline constexpr std::size_t max_plain_eager_head_bytes = 24;

/// As encode(): all but the payload, in words, which are all written; the bytes that count.
[[nodiscard]] inline std::size_t encode_plain_eager(
    const PlainEager& packet,
    std::span<std::uint64_t, max_plain_eager_head_bytes / 8> to) noexcept {
    const auto flags =
        static_cast<std::uint64_t>(packet.message_class) | (packet.has_data ? packet_has_data : 0U);
    to[0] = static_cast<std::uint64_t>(PacketKind::Eager) | flags << 8 |
            std::uint64_t{packet.credits} << 16 | std::uint64_t{packet.payload.size()} << 32;
    to[1] = packet.tag;
    to[2] = packet.has_data ? packet.data : 0;
    return packet.has_data ? sizeof(PacketHead) + sizeof packet.data : sizeof(PacketHead);
}

/// False: it is something else, or wrong; decode() knows.
[[nodiscard]] inline bool decode_plain_eager(std::span<const std::byte> bytes,
                                             PlainEager& packet) noexcept {
    static_assert(static_cast<int>(MessageClass::Message) == 0 &&
                  static_cast<int>(MessageClass::Tagged) == 1);
    // Word by word: a head that was just written so would be waited for if it were read otherwise.
    std::uint64_t head;
    if (bytes.size() < sizeof(PacketHead)) return false;
    std::memcpy(&head, bytes.data(), sizeof head);
    std::memcpy(&packet.tag, bytes.data() + sizeof head, sizeof packet.tag);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // read once: a peer may be writing
    // The kind, and no flag but these two.
    constexpr std::uint64_t decided = 0xFF | std::uint64_t{0xFF & ~(packet_has_data | 1U)} << 8;
    if ((head & decided) != static_cast<std::uint64_t>(PacketKind::Eager)) return false;
    packet.message_class = static_cast<MessageClass>(head >> 8 & 1U);
    packet.has_data = (head >> 8 & packet_has_data) != 0;
    const std::size_t before_payload =
        packet.has_data ? sizeof(PacketHead) + sizeof packet.data : sizeof(PacketHead);
    if (bytes.size() != before_payload + (head >> 32)) return false;
    packet.credits = static_cast<std::uint16_t>(head >> 16);
    packet.data = 0;
    if (packet.has_data)
        std::memcpy(&packet.data, bytes.data() + sizeof(PacketHead), sizeof packet.data);
    packet.payload = bytes.subspan(before_payload);
    return true;
}

// Inside a host the commonest packets are HeadedMessages: their head is a word or two, and the rest
// of what is said is in the note.
//
//   bits     one word             two words
//   0 - 23   remote data          0: remote data are the second word; 1: R3 data, whose first word
//                                 is the receiver's order and whose second is the offset
//   24 - 29  credits
//   30       a tag is the first word
//   31       there are remote data
inline constexpr std::uint32_t most_noted_data = 0xFFFFFF;
inline constexpr std::uint32_t noted_stream = 1;
inline constexpr std::uint16_t most_noted_credits = 63;
inline constexpr std::uint32_t noted_tagged = 1U << 30;
inline constexpr std::uint32_t noted_has_data = 1U << 31;
[[nodiscard]] constexpr std::uint32_t noted_credits(std::uint32_t note) noexcept {
    return note >> 24 & most_noted_credits;
}

/// All but the payload; `packet.credits` is at most most_noted_credits.
inline void encode_headed(const PlainEager& packet, na::HeadedMessage& message) noexcept {
    message.head[0] = packet.tag;
    message.note = std::uint32_t{packet.credits} << 24 |
                   (packet.message_class == MessageClass::Tagged ? noted_tagged : 0);
    if (!packet.has_data) return;
    message.note |= noted_has_data;
    if (packet.data <= most_noted_data) [[likely]] {
        message.note |= static_cast<std::uint32_t>(packet.data);
        return;
    }
    message.head[1] = packet.data;
    message.head_bytes = 16;
}

/// False: no peer of this version writes such a thing, or it is R3 data.
[[nodiscard]] inline bool decode_headed(std::uint32_t note, const std::uint64_t* head,
                                        std::uint32_t head_bytes, PlainEager& packet) noexcept {
    packet.message_class =
        (note & noted_tagged) != 0 ? MessageClass::Tagged : MessageClass::Message;
    packet.has_data = (note & noted_has_data) != 0;
    packet.credits = static_cast<std::uint16_t>(noted_credits(note));
    packet.tag = head[0];
    packet.data = note & most_noted_data;
    if (head_bytes == 8) [[likely]]
        return packet.has_data || packet.data == 0;
    if (packet.data != 0 || !packet.has_data) return false;
    packet.data = head[1];
    return true;
}

}  // namespace via::mvich
