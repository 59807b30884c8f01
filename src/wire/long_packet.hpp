// SPDX-License-Identifier: BSD-3-Clause
// A packet that is longer than a datagram of its link travels in several: eight bytes that say so,
// then the packet, cut into equal datagrams, of which only the last may be shorter. The datagrams
// behind the first have no bytes of ours at all, so that a stream's are the program's memory as it
// lies. Whoever misses one of them misses the packet: its checksum says so (docs/wire.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/packet.hpp"

namespace via::wire {

/// 0 the token, all bits turned, 4 length of the packet that follows.
struct LongPacketPrefix {
    static constexpr std::uint32_t bytes = 8;
    static constexpr std::uint32_t longest_packet = 65535;
    std::uint32_t token = 0;
    std::uint32_t length = 0;
};

inline void encode(std::byte* to, const LongPacketPrefix& prefix) noexcept {
    store(to, std::uint64_t{~prefix.token} | std::uint64_t{prefix.length} << 32U);
}

/// What a datagram begins with.
[[nodiscard]] inline bool begins_packet(std::span<const std::byte> datagram,
                                        std::uint32_t token) noexcept {
    return datagram.size() >= PacketHeader::bytes && load<std::uint32_t>(datagram.data()) == token;
}
[[nodiscard]] inline bool begins_long_packet(std::span<const std::byte> datagram,
                                             std::uint32_t token) noexcept {
    return datagram.size() > LongPacketPrefix::bytes + PacketHeader::bytes &&
           load<std::uint32_t>(datagram.data()) == ~token;
}

/// Of the first datagram and perhaps others behind it. Empty: none that anybody sends.
[[nodiscard]] inline std::optional<LongPacketPrefix> decode_unmeasured_prefix(
    std::span<const std::byte> datagrams) noexcept {
    LongPacketPrefix prefix;
    prefix.token = ~load<std::uint32_t>(datagrams.data());
    prefix.length = load<std::uint32_t>(datagrams.data() + 4);
    if (prefix.length < PacketHeader::bytes || prefix.length > LongPacketPrefix::longest_packet)
        return std::nullopt;
    return prefix;
}

/// Of the first datagram, which begins_long_packet(). Empty: none that anybody sends, as there are
/// no further datagrams or too many bytes of them.
[[nodiscard]] inline std::optional<LongPacketPrefix> decode_long_packet_prefix(
    std::span<const std::byte> datagram) noexcept {
    const auto prefix = decode_unmeasured_prefix(datagram);
    if (!prefix || prefix->length <= datagram.size() - LongPacketPrefix::bytes) return std::nullopt;
    return prefix;
}

}  // namespace via::wire
