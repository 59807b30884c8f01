// SPDX-License-Identifier: BSD-3-Clause
// The host part of a network address, in its two forms: six bytes that all processes of one host
// make by themselves (inside the host), and the Internet address of the host's kernel agent
// (between hosts): 4 or 6, the port in two bytes, high one first, then 4 or 16 bytes. An IPv6
// address that means something on one link only (fe80::…) has the number of this host's interface
// to that link in its bytes 4 to 7, which are zero on the wire.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "ka/client.hpp"

namespace via::ka {

using HostAddress = std::array<std::uint8_t, 6>;

/// Made from the boot id and the network namespace: it differs between hosts, and between the
/// namespaces of one host, which have agents of their own.
[[nodiscard]] HostAddress host_address();

/// Where a kernel agent can be reached: an Internet address and a UDP port.
struct AgentAddress {
    std::uint8_t family = 0;            ///< 4 or 6; 0: none
    std::uint16_t port = 0;             ///< 0 in an address that a program gave: the usual one
    std::array<std::uint8_t, 16> ip{};  ///< the first 4 or all
    /// Of fe80::… only: which interface of this host leads there; 0: not said.
    std::uint32_t scope = 0;

    [[nodiscard]] std::size_t ip_bytes() const noexcept { return family == 4 ? 4 : 16; }
    [[nodiscard]] bool valid() const noexcept { return family == 4 || family == 6; }
    [[nodiscard]] bool is_loopback() const noexcept;
    /// Means nothing beyond its own link.
    [[nodiscard]] bool is_link_local() const noexcept;
    /// An IPv6 one, of which every link of a host may lead to another.
    [[nodiscard]] bool needs_scope() const noexcept { return family == 6 && is_link_local(); }
    [[nodiscard]] bool same_host(const AgentAddress& other) const noexcept {
        return family == other.family && ip == other.ip;
    }
    friend bool operator==(const AgentAddress&, const AgentAddress&) = default;
    friend bool operator<(const AgentAddress& one, const AgentAddress& other) noexcept {
        return std::tie(one.family, one.port, one.ip, one.scope) <
               std::tie(other.family, other.port, other.ip, other.scope);
    }
};

inline constexpr std::size_t ip4_host_bytes = 7;
inline constexpr std::size_t ip6_host_bytes = 19;

/// An IPv4 address in its IPv6 clothes becomes IPv4; everything else stays.
[[nodiscard]] AgentAddress undressed(const AgentAddress& address) noexcept;

/// Empty: the host part has another form.
[[nodiscard]] std::optional<AgentAddress> agent_address(const NetAddress& address) noexcept;
void set_host(NetAddress& address, const AgentAddress& host) noexcept;
void set_host(NetAddress& address, const HostAddress& host) noexcept;
/// An address that another host has told, seen from here: what was said over the link `scope` of
/// fe80::… is behind that link.
void set_scope(NetAddress& address, std::uint32_t scope) noexcept;

/// "10.0.0.2:7471", "[fd00::2]:7471", "[fe80::2%eth0]:7471"
[[nodiscard]] std::string readable(const AgentAddress& address);

/// The UDP port of the kernel agent that this user runs, if VIA_NET_PORT does not say another.
[[nodiscard]] std::uint16_t usual_net_port(uid_t user) noexcept;

}  // namespace via::ka
