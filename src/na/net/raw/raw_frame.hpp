// SPDX-License-Identifier: BSD-3-Clause
// A packet of ours as an Ethernet frame of its own kind: addresses, ethertype, the id that the
// receiver chose, the packet's length (short frames are padded on the wire), the packet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "na/net/interfaces.hpp"

namespace via::na::net {

/// IEEE 802's first ethertype for local experiments: no other protocol of the host sees it.
inline constexpr std::uint16_t raw_ethertype = 0x88B5;
inline constexpr std::size_t raw_type_offset = 12;
inline constexpr std::size_t raw_id_offset = 14;
inline constexpr std::size_t raw_length_offset = 18;
inline constexpr std::size_t raw_header_bytes = 20;
/// What of the MTU, which does not count Ethernet's own header, is not the packet's.
inline constexpr std::size_t raw_overhead_bytes = raw_header_bytes - 14;

/// One end: the interface's MAC and what its owner has told the peer to write into frames for it.
struct RawAddress {
    MacBytes mac{};
    std::uint32_t id = 0;
};

/// All of the header but the length.
inline void write_raw_header(std::byte* to, const RawAddress& peer, const MacBytes& own) noexcept {
    std::memcpy(to, peer.mac.data(), peer.mac.size());
    std::memcpy(to + 6, own.data(), own.size());
    to[raw_type_offset] = static_cast<std::byte>(raw_ethertype >> 8);
    to[raw_type_offset + 1] = static_cast<std::byte>(raw_ethertype & 0xFF);
    for (std::size_t i = 0; i < 4; ++i)
        to[raw_id_offset + i] = static_cast<std::byte>(peer.id >> (24 - 8 * i));
}

inline void write_raw_length(std::byte* to, std::size_t bytes) noexcept {
    to[raw_length_offset] = static_cast<std::byte>(bytes >> 8);
    to[raw_length_offset + 1] = static_cast<std::byte>(bytes);
}

/// The packet of a frame that is for `id` and from `peer`; empty if it is not, or is damaged.
inline std::span<const std::byte> packet_of_frame(std::span<const std::byte> frame,
                                                  std::uint32_t id, const MacBytes& peer) noexcept {
    if (frame.size() < raw_header_bytes) return {};
    std::byte expected[4];
    for (std::size_t i = 0; i < 4; ++i)
        expected[i] = static_cast<std::byte>(id >> (24 - 8 * i));
    if (std::memcmp(frame.data() + 6, peer.data(), peer.size()) != 0 ||
        std::memcmp(frame.data() + raw_id_offset, expected, sizeof expected) != 0)
        return {};
    const std::size_t bytes = std::to_integer<std::size_t>(frame[raw_length_offset]) << 8 |
                              std::to_integer<std::size_t>(frame[raw_length_offset + 1]);
    const auto rest = frame.subspan(raw_header_bytes);
    return bytes <= rest.size() ? rest.first(bytes) : std::span<const std::byte>{};
}

}  // namespace via::na::net
