// SPDX-License-Identifier: BSD-3-Clause
// What a host offers for its end of the links, and which links come of two offers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "na/net/interfaces.hpp"

namespace via::na::net {

/// One address of one interface, with the port that is open there.
struct OfferedInterface {
    std::uint8_t interface = 0;  ///< entries with the same number are addresses of one interface
    Family family = Family::Ipv4;
    bool loopback = false;
    std::uint8_t prefix = 0;
    std::uint16_t port = 0;
    std::uint16_t mtu = 0;  ///< 65535 also for more
    AddressBytes address{};
    MacBytes mac{};  ///< zero: it carries no Ethernet frames

    bool operator==(const OfferedInterface&) const = default;
};

struct InterfaceOffer {
    std::uint64_t host = 0;  ///< host_identity()
    std::vector<OfferedInterface> entries;

    bool operator==(const InterfaceOffer&) const = default;
};

inline constexpr std::size_t most_offered = 16;
inline constexpr std::size_t most_offer_bytes = 448;

/// Writes the offer and returns its length. Entries beyond most_offered, or for which there is no
/// room, are taken out of the offer, so that both sides go on with the same one. (16 with IPv4, or
/// with both families on each interface, always fit; with nothing but IPv6, 15 do.)
[[nodiscard]] std::size_t encode(InterfaceOffer& offer, std::span<std::byte> to);
/// Refuses what no host would offer: a peer must not choose where in this host our packets go.
[[nodiscard]] base::Result<InterfaceOffer> decode_offer(std::span<const std::byte> from);

/// What this host can offer: the entry, still without a port, and where to open one.
struct LocalInterface {
    OfferedInterface entry;
    std::string name;
    std::uint32_t index = 0;
};

/// One address of each family from each interface in use, at most most_offered: those without which
/// an interface would have none come first.
[[nodiscard]] std::vector<LocalInterface> interfaces_to_offer(const InterfaceChoice& choice);

/// A link: entry `a` of one offer with entry `b` of the other.
struct LinkPair {
    std::uint8_t a = 0;
    std::uint8_t b = 0;
    bool routed = false;  ///< not in one subnet: there may be no way

    bool operator==(const LinkPair&) const = default;
};

struct PairingRules {
    /// Two processes of one host use nothing but its loopback.
    bool loopback_alone = true;
};

/// The links, in an order that both ends agree on: whoever computes it with the offers swapped gets
/// the same list with a and b swapped. Each interface is in one link at most. Pairs in one subnet
/// come first, IPv4 before IPv6; what is left is paired in its order if both addresses could be
/// routed.
[[nodiscard]] std::vector<LinkPair> pair_interfaces(const InterfaceOffer& a,
                                                    const InterfaceOffer& b,
                                                    PairingRules rules = {});

}  // namespace via::na::net
