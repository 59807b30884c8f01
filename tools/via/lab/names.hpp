// SPDX-License-Identifier: BSD-3-Clause
// What things in a lab are called. The names are all that is kept of a lab: whoever wants to see it
// or take it down finds it by them, also when its maker has crashed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace via::lab {

inline constexpr unsigned most_hosts = 16;
inline constexpr unsigned most_links = 8;

/// Letters, digits and underscores, at most 24.
[[nodiscard]] bool valid_lab_name(std::string_view name);

/// 0 is "a".
[[nodiscard]] std::string host_name(unsigned host);
[[nodiscard]] std::optional<unsigned> host_number(std::string_view name);

/// The network namespace of a host: "via-lab-<lab>-a". With more than two hosts the bridges between
/// them lie in a namespace of their own, whose host is called `wire`.
inline constexpr std::string_view wire = "wire";
[[nodiscard]] std::string space_name(std::string_view lab, std::string_view host);
/// Where iproute2 keeps the namespace.
[[nodiscard]] std::string space_path(std::string_view space);
/// Files that stand in for those of /etc there.
[[nodiscard]] std::string space_etc_folder(std::string_view space);

/// A host's end of a link: "link0".
[[nodiscard]] std::string device_name(unsigned link);
/// The bridge of a link and a host's port at it, in the namespace of the wire.
[[nodiscard]] std::string bridge_name(unsigned link);
[[nodiscard]] std::string port_name(unsigned link, unsigned host);
/// The two devices of the relay for what a host sends: where it takes packets, in the host, and
/// where it puts them back, at the other end of the link.
[[nodiscard]] std::string relay_device_name(unsigned link);
[[nodiscard]] std::string inject_device_name(unsigned link, unsigned host);
/// What the relay's process is called.
[[nodiscard]] std::string relay_process_name(unsigned link);

/// "10.77.<link>.<host + 1>" and "fd77:<link>::<host + 1>".
[[nodiscard]] std::string ipv4_address(unsigned link, unsigned host);
[[nodiscard]] std::string ipv6_address(unsigned link, unsigned host);

struct SpaceName {
    std::string lab;
    std::string host;  ///< or `wire`
};
/// Of a namespace that belongs to a lab.
[[nodiscard]] std::optional<SpaceName> parse_space_name(std::string_view space);
/// All namespaces of all labs on this machine, sorted.
[[nodiscard]] std::vector<SpaceName> present_spaces();

}  // namespace via::lab
