// SPDX-License-Identifier: BSD-3-Clause
// The network interfaces of this host: which of them carry connections, and why the others do not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::na::net {

enum class Family : std::uint8_t { Ipv4, Ipv6 };

/// An address in network order; an IPv4 address takes the first four bytes, the rest is zero.
using AddressBytes = std::array<std::uint8_t, 16>;
using MacBytes = std::array<std::uint8_t, 6>;

[[nodiscard]] std::string to_text(Family family, const AddressBytes& address);
/// Means nothing beyond its own wire.
[[nodiscard]] bool is_link_local(Family family, const AddressBytes& address) noexcept;

struct InterfaceAddress {
    Family family = Family::Ipv4;
    AddressBytes address{};
    std::uint8_t prefix = 0;
    bool link_local = false;
    bool peerless = false;  ///< a lone host address: no subnet, and no other end is named
    bool fleeting = false;  ///< temporary or deprecated: the last choice
};

struct Interface {
    std::string name;
    std::uint32_t index = 0;
    std::uint32_t mtu = 0;
    MacBytes mac{};
    bool ethernet = false;  ///< it has a MAC and carries Ethernet frames
    bool up = false;
    bool running = false;  ///< there is a carrier
    bool loopback = false;
    bool point_to_point = false;
    std::string kind;          ///< "bridge", "veth", "tun", ...; empty for hardware
    std::uint32_t master = 0;  ///< index of the bridge or bond it is a port of
    /// Those that are ready; link-local ones only where there is no other, lasting ones first.
    std::vector<InterfaceAddress> addresses;
};

/// All there are in this network namespace, in the order of their indices.
[[nodiscard]] base::Result<std::vector<Interface>> read_interfaces();

struct InterfaceRow {
    Interface interface;
    bool used = false;
    std::string reason;  ///< why it is not used, or how it is
};

struct InterfaceChoice {
    std::vector<InterfaceRow> rows;     ///< every interface of the host
    std::vector<std::string> warnings;  ///< names in the setting that no interface has
};

/// Which of them carry connections. The patterns are those of VIA_NET_INTERFACES: names or
/// patterns like eth*, and !docker0 for what is left out.
[[nodiscard]] InterfaceChoice choose_interfaces(std::vector<Interface> interfaces,
                                                std::string_view patterns);

/// The two above with this process's setting.
[[nodiscard]] base::Result<InterfaceChoice> host_interfaces();

/// The same number in all processes that share a loopback interface, and hardly in any others.
[[nodiscard]] std::uint64_t host_identity();

/// Becomes readable when an interface or an address of the host comes, goes or changes.
class InterfaceWatch {
  public:
    [[nodiscard]] static base::Result<InterfaceWatch> open();
    [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
    /// Has anything changed since the last call? Reads what is there; never blocks.
    [[nodiscard]] bool changed();

  private:
    explicit InterfaceWatch(base::UniqueFd socket) noexcept : socket_(std::move(socket)) {}
    base::UniqueFd socket_;
};

}  // namespace via::na::net
