// SPDX-License-Identifier: BSD-3-Clause
// An endpoint's name as a process publishes it for the others of its job: version, length of the
// host's address, port, address. What comes back is what another process wrote.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "mvich/address_book.hpp"

namespace via::openmpi {

inline constexpr std::uint8_t card_version = 1;
using Card = std::array<std::uint8_t, 4 + 16>;

[[nodiscard]] inline Card card_of(const mvich::HostPort& name) noexcept {
    Card card{card_version, name.host_bytes, static_cast<std::uint8_t>(name.port >> 8),
              static_cast<std::uint8_t>(name.port)};
    std::copy(name.host.begin(), name.host.end(), card.begin() + 4);
    return card;
}

/// Nothing: it is no such card, or of another version.
[[nodiscard]] inline std::optional<mvich::HostPort> name_on(std::span<const std::uint8_t> card) {
    if (card.size() != std::tuple_size_v<Card> || card[0] != card_version) return std::nullopt;
    mvich::HostPort name;
    name.host_bytes = card[1];
    name.port = static_cast<std::uint16_t>(card[2] << 8 | card[3]);
    std::copy(card.begin() + 4, card.end(), name.host.begin());
    const auto beyond = name.host.begin() + std::min<std::size_t>(name.host_bytes, 16);
    const bool rest_is_zero =
        std::all_of(beyond, name.host.end(), [](std::uint8_t byte) { return byte == 0; });
    if ((name.host_bytes != 4 && name.host_bytes != 16) || name.port == 0 || !rest_is_zero)
        return std::nullopt;
    return name;
}

}  // namespace via::openmpi
