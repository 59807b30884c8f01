// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/pairing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

namespace via::na::net {
namespace {

// An offer: host (8 bytes, little end first), number of entries, zero. An entry: what (below),
// prefix, port, MTU (2 bytes each), 4 or 16 bytes of address, and 6 of MAC in the first entry of an
// interface that has one.
constexpr std::size_t header_bytes = 10;
constexpr std::uint8_t interface_bits = 0x0F;
constexpr std::uint8_t ipv6_bit = 0x10;
constexpr std::uint8_t loopback_bit = 0x20;
constexpr std::uint8_t mac_bit = 0x40;
constexpr std::uint8_t unknown_bits = 0x80;

std::size_t address_bytes(Family family) {
    return family == Family::Ipv4 ? 4 : 16;
}

template <class Number>
void put(std::span<std::byte>& to, Number number) {
    for (std::size_t i = 0; i < sizeof number; ++i)
        to[i] = static_cast<std::byte>(number >> (8 * i));
    to = to.subspan(sizeof number);
}
void put_bytes(std::span<std::byte>& to, std::span<const std::uint8_t> bytes) {
    std::memcpy(to.data(), bytes.data(), bytes.size());
    to = to.subspan(bytes.size());
}

template <class Number>
Number get(std::span<const std::byte>& from) {
    Number number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
        number = static_cast<Number>(number | static_cast<Number>(from[i]) << (8 * i));
    from = from.subspan(sizeof number);
    return number;
}
void get_bytes(std::span<const std::byte>& from, std::span<std::uint8_t> bytes) {
    std::memcpy(bytes.data(), from.data(), bytes.size());
    from = from.subspan(bytes.size());
}

bool is_loopback(const OfferedInterface& entry) {
    if (entry.family == Family::Ipv4) return entry.address[0] == 127;
    AddressBytes one{};
    one[15] = 1;
    return entry.address == one;
}

/// An address that one host can have for itself in a network.
bool is_plausible(const OfferedInterface& entry) {
    const AddressBytes& bytes = entry.address;
    if (entry.family == Family::Ipv4) return bytes[0] != 0 && bytes[0] < 224;
    // Neither multicast nor one of the forms with an IPv4 address inside, nor nothing.
    return bytes[0] != 0xFF &&
           (is_loopback(entry) || std::any_of(bytes.begin(), bytes.begin() + 8,
                                              [](std::uint8_t byte) { return byte != 0; }));
}

std::string refusal(const OfferedInterface& entry) {
    if (entry.prefix == 0 || entry.prefix > address_bytes(entry.family) * 8)
        return "a prefix of " + std::to_string(entry.prefix);
    if (entry.port == 0) return "no port";
    if (entry.mtu < 1280) return "an MTU of " + std::to_string(entry.mtu);
    if (!is_plausible(entry) || is_loopback(entry) != entry.loopback)
        return "the address " + to_text(entry.family, entry.address) +
               (entry.loopback ? " as its loopback" : "");
    return {};
}

bool in_one_subnet(const OfferedInterface& a, const OfferedInterface& b) {
    const unsigned prefix = std::max(a.prefix, b.prefix);
    for (unsigned bit = 0; bit < prefix; bit += 8) {
        const unsigned mask = prefix - bit >= 8 ? 0xFFU : 0xFFU << (8 - (prefix - bit)) & 0xFFU;
        if (((a.address[bit / 8] ^ b.address[bit / 8]) & mask) != 0) return false;
    }
    return true;
}

bool has_address(const InterfaceOffer& offer, const OfferedInterface& of) {
    return std::any_of(offer.entries.begin(), offer.entries.end(), [&](const auto& entry) {
        return entry.family == of.family && entry.address == of.address;
    });
}

/// How good a link would be, best first.
enum class Rank : std::uint8_t {
    Ipv4Loopback,
    Ipv6Loopback,
    Ipv4Subnet,
    Ipv6Subnet,
    Ipv4Routed,
    Ipv6Routed,
    None
};

Rank rank_of(const InterfaceOffer& offer_a, const OfferedInterface& a,
             const InterfaceOffer& offer_b, const OfferedInterface& b) {
    if (a.family != b.family || a.loopback != b.loopback) return Rank::None;
    const bool ipv4 = a.family == Family::Ipv4;
    const bool one_host = offer_a.host == offer_b.host;
    if (a.loopback) {
        if (!one_host) return Rank::None;
        return ipv4 ? Rank::Ipv4Loopback : Rank::Ipv6Loopback;
    }
    // An address that both hosts have (each its own docker0, say) leads every host to itself.
    if (!one_host && (has_address(offer_b, a) || has_address(offer_a, b))) return Rank::None;
    if (in_one_subnet(a, b)) return ipv4 ? Rank::Ipv4Subnet : Rank::Ipv6Subnet;
    if (is_link_local(a.family, a.address) || is_link_local(b.family, b.address)) return Rank::None;
    return ipv4 ? Rank::Ipv4Routed : Rank::Ipv6Routed;
}

/// Does a come first, where the pair (i, j) is as good as (j, i)? Offers that are the same in
/// everything have no such pairs: an entry goes with its twin.
bool comes_first(const InterfaceOffer& a, const InterfaceOffer& b) {
    if (a.host != b.host) return a.host < b.host;
    const auto key = [](const OfferedInterface& x) {
        return std::tie(x.port, x.address, x.family, x.interface, x.prefix, x.loopback, x.mtu,
                        x.mac);
    };
    return std::lexicographical_compare(
        a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
        [&](const OfferedInterface& x, const OfferedInterface& y) { return key(x) < key(y); });
}

}  // namespace

std::size_t encode(InterfaceOffer& offer, std::span<std::byte> to) {
    const std::size_t whole = to.size();
    std::span<std::byte> header = to.subspan(0, header_bytes);
    to = to.subspan(header_bytes);
    std::array<bool, most_offered> has_mac{};
    std::size_t count = 0;
    for (const OfferedInterface& entry : offer.entries) {
        const std::size_t number = entry.interface & interface_bits;
        const bool with_mac = !has_mac[number] && entry.mac != MacBytes{};
        const std::size_t length =
            6 + address_bytes(entry.family) + (with_mac ? entry.mac.size() : 0);
        if (count == most_offered || length > to.size()) break;
        put(to, static_cast<std::uint8_t>(number | (entry.family == Family::Ipv6 ? ipv6_bit : 0U) |
                                          (entry.loopback ? loopback_bit : 0U) |
                                          (with_mac ? mac_bit : 0U)));
        put(to, entry.prefix);
        put(to, entry.port);
        put(to, entry.mtu);
        put_bytes(to, std::span(entry.address).first(address_bytes(entry.family)));
        if (with_mac) put_bytes(to, std::span(entry.mac));
        has_mac[number] = has_mac[number] || with_mac;
        ++count;
    }
    offer.entries.resize(count);
    put(header, offer.host);
    put(header, static_cast<std::uint8_t>(count));
    put(header, std::uint8_t{0});
    return whole - to.size();
}

base::Result<InterfaceOffer> decode_offer(std::span<const std::byte> from) {
    const auto refused = [](const std::string& what) {
        return base::Error{base::Code::ProtocolViolation,
                           "the peer's offer of interfaces is wrong: " + what};
    };
    if (from.size() < header_bytes || from.size() > most_offer_bytes)
        return refused(std::to_string(from.size()) + " bytes");
    InterfaceOffer offer;
    offer.host = get<std::uint64_t>(from);
    const auto count = get<std::uint8_t>(from);
    if (get<std::uint8_t>(from) != 0 || count > most_offered)
        return refused(std::to_string(count) + " entries");
    std::array<MacBytes, most_offered> macs{};
    for (std::size_t i = 0; i < count; ++i) {
        if (from.size() < 6) return refused("it is cut short");
        const auto what = get<std::uint8_t>(from);
        if ((what & unknown_bits) != 0) return refused("an unknown kind of entry");
        OfferedInterface entry;
        entry.interface = what & interface_bits;
        entry.family = (what & ipv6_bit) != 0 ? Family::Ipv6 : Family::Ipv4;
        entry.loopback = (what & loopback_bit) != 0;
        entry.prefix = get<std::uint8_t>(from);
        entry.port = get<std::uint16_t>(from);
        entry.mtu = get<std::uint16_t>(from);
        const bool with_mac = (what & mac_bit) != 0;
        const std::size_t length = address_bytes(entry.family);
        if (from.size() < length + (with_mac ? entry.mac.size() : 0))
            return refused("it is cut short");
        get_bytes(from, std::span(entry.address).first(length));
        if (with_mac) {
            MacBytes mac{};
            get_bytes(from, mac);
            // Only once, and no group address: frames would go to everybody.
            if (macs[entry.interface] != MacBytes{} || mac == MacBytes{} || (mac[0] & 1) != 0)
                return refused("a MAC that cannot be one");
            macs[entry.interface] = mac;
        }
        entry.mac = macs[entry.interface];
        if (const std::string reason = refusal(entry); !reason.empty()) return refused(reason);
        offer.entries.push_back(entry);
    }
    if (!from.empty()) return refused("bytes after its end");
    return offer;
}

std::vector<LocalInterface> interfaces_to_offer(const InterfaceChoice& choice) {
    std::vector<LocalInterface> first;
    std::vector<LocalInterface> further;
    std::uint8_t number = 0;
    for (const InterfaceRow& row : choice.rows) {
        if (!row.used || number == most_offered) continue;
        std::array<bool, 2> has_family{};
        bool has_any = false;
        for (const InterfaceAddress& address : row.interface.addresses) {
            const auto family = static_cast<std::size_t>(address.family);
            LocalInterface local;
            local.name = row.interface.name;
            local.index = row.interface.index;
            OfferedInterface& entry = local.entry;
            entry.interface = number;
            entry.family = address.family;
            entry.loopback = row.interface.loopback;
            entry.prefix = address.prefix;
            entry.mtu = static_cast<std::uint16_t>(std::min(row.interface.mtu, 65535U));
            entry.address = address.address;
            if (row.interface.ethernet) entry.mac = row.interface.mac;
            // An address may be where it should not: a service address on lo, say.
            if (has_family[family] || entry.prefix == 0 || !is_plausible(entry) ||
                is_loopback(entry) != entry.loopback)
                continue;
            has_family[family] = true;
            (has_any ? further : first).push_back(std::move(local));
            has_any = true;
        }
        if (has_any) ++number;
    }
    for (LocalInterface& local : further)
        if (first.size() < most_offered) first.push_back(std::move(local));
    return first;
}

std::vector<LinkPair> pair_interfaces(const InterfaceOffer& a, const InterfaceOffer& b,
                                      PairingRules rules) {
    struct Candidate {
        Rank rank;
        std::size_t a;
        std::size_t b;
    };
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < a.entries.size(); ++i)
        for (std::size_t j = 0; j < b.entries.size(); ++j)
            if (const Rank rank = rank_of(a, a.entries[i], b, b.entries[j]); rank != Rank::None)
                candidates.push_back({rank, i, j});
    const bool a_first = comes_first(a, b);
    const auto key = [&](const Candidate& one) {
        return std::tuple(one.rank, std::max(one.a, one.b), std::min(one.a, one.b),
                          a_first ? one.a : one.b);
    };
    std::sort(candidates.begin(), candidates.end(),
              [&](const Candidate& x, const Candidate& y) { return key(x) < key(y); });

    std::vector<LinkPair> links;
    std::array<bool, 256> used_a{};
    std::array<bool, 256> used_b{};
    for (const Candidate& one : candidates) {
        bool& of_a = used_a[a.entries[one.a].interface];
        bool& of_b = used_b[b.entries[one.b].interface];
        if (of_a || of_b) continue;
        of_a = of_b = true;
        links.push_back({static_cast<std::uint8_t>(one.a), static_cast<std::uint8_t>(one.b),
                         one.rank >= Rank::Ipv4Routed});
        if (one.rank <= Rank::Ipv6Loopback && rules.loopback_alone) break;
    }
    return links;
}

}  // namespace via::na::net
