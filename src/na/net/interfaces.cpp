// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/interfaces.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/settings.hpp"
#include "ka/host_address.hpp"

namespace via::na::net {
namespace {

constexpr std::uint32_t least_mtu = 1280;

/// The attributes of a netlink message; those that are cut short are left out.
template <class Visit>
void for_each_attribute(std::span<const std::byte> bytes, Visit visit) {
    while (bytes.size() >= sizeof(rtattr)) {
        rtattr header;
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.rta_len < sizeof header || header.rta_len > bytes.size()) return;
        visit(header.rta_type & NLA_TYPE_MASK,
              bytes.subspan(sizeof header, header.rta_len - sizeof header));
        bytes = bytes.subspan(std::min<std::size_t>(RTA_ALIGN(header.rta_len), bytes.size()));
    }
}

template <class Value>
Value value_of(std::span<const std::byte> bytes) {
    Value value{};
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
}

std::string text_of(std::span<const std::byte> bytes) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    return {text, strnlen(text, bytes.size())};
}

base::Result<base::UniqueFd> netlink_socket(std::uint32_t groups) {
    base::UniqueFd socket(::socket(
        AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | (groups != 0 ? SOCK_NONBLOCK : 0), NETLINK_ROUTE));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = groups;
    if (!socket.valid() ||
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return base::system_error(errno, "opening a netlink socket to see the interfaces");
    return socket;
}

/// Asks for all links or all addresses; `take` gets the fixed part and the attributes of each.
template <class Fixed, class Take>
base::Result<void> dump(int socket, std::uint16_t request_type, Take take) {
    struct {
        nlmsghdr header;
        Fixed fixed;
    } request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = request_type;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.header.nlmsg_seq = request_type;
    const auto failed = [](int error_number) {
        return base::system_error(error_number, "asking the kernel for the network interfaces");
    };
    if (::send(socket, &request, sizeof request, 0) < 0) return failed(errno);
    std::vector<std::byte> buffer(32768);
    for (;;) {
        const ssize_t received = ::recv(socket, buffer.data(), buffer.size(), MSG_TRUNC);
        if (received < 0 && errno == EINTR) continue;
        if (received < 0) return failed(errno);
        if (received == 0 || static_cast<std::size_t>(received) > buffer.size())
            return failed(EMSGSIZE);
        std::span<const std::byte> rest(buffer.data(), static_cast<std::size_t>(received));
        while (rest.size() >= sizeof(nlmsghdr)) {
            const auto header = value_of<nlmsghdr>(rest);
            if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) break;
            const auto body = rest.subspan(sizeof header, header.nlmsg_len - sizeof header);
            if (header.nlmsg_type == NLMSG_DONE) return {};
            if (header.nlmsg_type == NLMSG_ERROR) return failed(-value_of<nlmsgerr>(body).error);
            if (body.size() >= sizeof(Fixed))
                take(header.nlmsg_type, value_of<Fixed>(body),
                     body.subspan(NLMSG_ALIGN(sizeof(Fixed))));
            rest = rest.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
        }
    }
}

Interface interface_of(const ifinfomsg& fixed, std::span<const std::byte> attributes) {
    Interface interface;
    interface.index = static_cast<std::uint32_t>(fixed.ifi_index);
    interface.up = (fixed.ifi_flags & IFF_UP) != 0;
    // Not IFF_RUNNING, which the kernel corrects up to a second later.
    interface.running = (fixed.ifi_flags & (IFF_LOWER_UP | IFF_DORMANT)) == IFF_LOWER_UP;
    interface.loopback = (fixed.ifi_flags & IFF_LOOPBACK) != 0;
    interface.point_to_point = (fixed.ifi_flags & IFF_POINTOPOINT) != 0;
    for_each_attribute(attributes, [&](int type, std::span<const std::byte> value) {
        switch (type) {
            case IFLA_IFNAME:
                interface.name = text_of(value);
                break;
            case IFLA_MTU:
                interface.mtu = value_of<std::uint32_t>(value);
                break;
            case IFLA_MASTER:
                interface.master = value_of<std::uint32_t>(value);
                break;
            case IFLA_ADDRESS:
                if (fixed.ifi_type == ARPHRD_ETHER && value.size() == interface.mac.size()) {
                    std::memcpy(interface.mac.data(), value.data(), value.size());
                    interface.ethernet = true;
                }
                break;
            case IFLA_LINKINFO:
                for_each_attribute(value, [&](int inner, std::span<const std::byte> text) {
                    if (inner == IFLA_INFO_KIND) interface.kind = text_of(text);
                });
                break;
            default:
                break;
        }
    });
    return interface;
}

void add_address(Interface& interface, const ifaddrmsg& fixed,
                 std::span<const std::byte> attributes) {
    if (fixed.ifa_family != AF_INET && fixed.ifa_family != AF_INET6) return;
    InterfaceAddress address;
    address.family = fixed.ifa_family == AF_INET ? Family::Ipv4 : Family::Ipv6;
    address.prefix = fixed.ifa_prefixlen;
    const std::size_t length = address.family == Family::Ipv4 ? 4 : 16;
    std::uint32_t flags = fixed.ifa_flags;
    AddressBytes other_end{};
    bool has_local = false;
    for_each_attribute(attributes, [&](int type, std::span<const std::byte> value) {
        if (type == IFA_FLAGS) flags = value_of<std::uint32_t>(value);
        if (value.size() != length) return;
        // IFA_ADDRESS is the other end where there is one, else the same as IFA_LOCAL.
        if (type == IFA_ADDRESS) std::memcpy(other_end.data(), value.data(), length);
        if (type == IFA_LOCAL) {
            std::memcpy(address.address.data(), value.data(), length);
            has_local = true;
        }
    });
    if (!has_local) address.address = other_end;
    if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return;
    address.link_local = is_link_local(address.family, address.address);
    address.peerless = address.prefix == length * 8 && other_end == address.address;
    address.fleeting = (flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED)) != 0;
    interface.addresses.push_back(address);
}

/// Only what a connection would take, in the order in which it would.
void sort_addresses(Interface& interface) {
    auto& addresses = interface.addresses;
    const auto is_wide = [](const InterfaceAddress& address) { return !address.link_local; };
    if (std::any_of(addresses.begin(), addresses.end(), is_wide))
        std::erase_if(addresses, [&](const auto& address) { return !is_wide(address); });
    std::vector<InterfaceAddress> sorted;
    for (const Family family : {Family::Ipv4, Family::Ipv6})
        for (const bool fleeting : {false, true})
            std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(sorted),
                         [&](const InterfaceAddress& address) {
                             return address.family == family && address.fleeting == fleeting;
                         });
    addresses = std::move(sorted);
}

/// Is it how container engines and virtual machines call their bridges?
bool is_engine_name(const std::string& name) {
    static constexpr std::array patterns = {"docker*", "br-????????????", "podman*",
                                            "cni*",    "nerdctl*",        "virbr*",
                                            "lxcbr*",  "lxdbr*",          "incusbr*"};
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const char* pattern) { return fnmatch(pattern, name.c_str(), 0) == 0; });
}

/// A bridge of a container engine whose ports all end on this host.
bool is_inner_bridge(const Interface& bridge, const std::vector<Interface>& all) {
    if (bridge.kind != "bridge" || !is_engine_name(bridge.name)) return false;
    return std::none_of(all.begin(), all.end(), [&](const Interface& port) {
        return port.master == bridge.index && port.kind != "veth" && port.kind != "tun";
    });
}

struct Patterns {
    std::vector<std::string> wanted;
    std::vector<std::string> unwanted;
};

Patterns split(std::string_view text) {
    Patterns patterns;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        std::string_view word = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        const auto trim = [&word] {
            while (!word.empty() && (word.front() == ' ' || word.front() == '\t'))
                word.remove_prefix(1);
            while (!word.empty() && (word.back() == ' ' || word.back() == '\t'))
                word.remove_suffix(1);
        };
        trim();
        const bool negated = word.starts_with('!');
        if (negated) word.remove_prefix(1);
        trim();
        if (!word.empty()) (negated ? patterns.unwanted : patterns.wanted).emplace_back(word);
    }
    return patterns;
}

const std::string* first_match(const std::vector<std::string>& patterns, const std::string& name) {
    const auto found = std::find_if(patterns.begin(), patterns.end(), [&](const auto& pattern) {
        return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    });
    return found == patterns.end() ? nullptr : &*found;
}

std::string name_of(std::uint32_t index, const std::vector<Interface>& all) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& other) { return other.index == index; });
    return found == all.end() ? "interface " + std::to_string(index) : found->name;
}

/// Empty: it can be used.
std::string reason_against(const Interface& interface, const std::vector<Interface>& all,
                           const Patterns& patterns) {
    if (const auto* pattern = first_match(patterns.unwanted, interface.name))
        return "left out by !" + *pattern + " in VIA_NET_INTERFACES";
    const bool named = first_match(patterns.wanted, interface.name) != nullptr;
    // Peers on this host are no business of a list of networks.
    if (!patterns.wanted.empty() && !named && !interface.loopback)
        return "not named in VIA_NET_INTERFACES";
    if (!interface.up) return "down";
    if (!interface.running) return "no carrier";
    if (interface.addresses.empty())
        return interface.master != 0
                   ? "no address of its own: it is a port of " + name_of(interface.master, all)
                   : "no address";
    if (interface.mtu < least_mtu)
        return "its MTU of " + std::to_string(interface.mtu) + " bytes is below " +
               std::to_string(least_mtu);
    if (interface.loopback) return {};
    // WireGuard knows its other ends itself.
    if (interface.point_to_point && interface.kind != "wireguard" &&
        std::all_of(interface.addresses.begin(), interface.addresses.end(),
                    [](const auto& address) { return address.peerless; }))
        return "point-to-point to nobody";
    if (!named && is_inner_bridge(interface, all))
        return "a bridge to containers of this host only; name it in VIA_NET_INTERFACES to use it";
    return {};
}

std::string how_used(const Interface& interface) {
    if (interface.loopback) return "only for peers on this host";
    if (interface.addresses.front().link_local) return "by its link-local address: it has no other";
    return "used";
}

}  // namespace

std::string to_text(Family family, const AddressBytes& address) {
    char text[INET6_ADDRSTRLEN] = {};
    inet_ntop(family == Family::Ipv4 ? AF_INET : AF_INET6, address.data(), text, sizeof text);
    return text;
}

bool is_link_local(Family family, const AddressBytes& address) noexcept {
    if (family == Family::Ipv4) return address[0] == 169 && address[1] == 254;
    return address[0] == 0xFE && (address[1] & 0xC0) == 0x80;
}

base::Result<std::vector<Interface>> read_interfaces() {
    auto socket = netlink_socket(0);
    if (!socket.ok()) return std::move(socket).error();
    std::map<std::uint32_t, Interface> found;
    auto links = dump<ifinfomsg>(
        socket.value().get(), RTM_GETLINK,
        [&](std::uint16_t type, const ifinfomsg& fixed, std::span<const std::byte> attributes) {
            if (type != RTM_NEWLINK) return;
            Interface interface = interface_of(fixed, attributes);
            found.emplace(interface.index, std::move(interface));
        });
    if (!links.ok()) return std::move(links).error();
    auto addresses = dump<ifaddrmsg>(
        socket.value().get(), RTM_GETADDR,
        [&](std::uint16_t type, const ifaddrmsg& fixed, std::span<const std::byte> attributes) {
            const auto interface = found.find(fixed.ifa_index);
            if (type == RTM_NEWADDR && interface != found.end())
                add_address(interface->second, fixed, attributes);
        });
    if (!addresses.ok()) return std::move(addresses).error();
    std::vector<Interface> interfaces;
    for (auto& [index, interface] : found) {
        sort_addresses(interface);
        interfaces.push_back(std::move(interface));
    }
    return interfaces;
}

InterfaceChoice choose_interfaces(std::vector<Interface> interfaces, std::string_view setting) {
    const Patterns patterns = split(setting);
    InterfaceChoice choice;
    for (const auto* list : {&patterns.wanted, &patterns.unwanted})
        for (const std::string& pattern : *list)
            if (std::none_of(interfaces.begin(), interfaces.end(), [&](const auto& interface) {
                    return fnmatch(pattern.c_str(), interface.name.c_str(), 0) == 0;
                }))
                choice.warnings.push_back(
                    "VIA_NET_INTERFACES: no interface of this host is called " + pattern);
    for (const Interface& interface : interfaces) {
        std::string reason = reason_against(interface, interfaces, patterns);
        const bool used = reason.empty();
        if (used) reason = how_used(interface);
        choice.rows.push_back({interface, used, std::move(reason)});
    }
    return choice;
}

base::Result<InterfaceChoice> host_interfaces() {
    auto interfaces = read_interfaces();
    if (!interfaces.ok()) return std::move(interfaces).error();
    return choose_interfaces(std::move(interfaces).value(),
                             base::Settings::get().text("VIA_NET_INTERFACES"));
}

std::uint64_t host_identity() {
    std::uint64_t identity = 0;
    for (const std::uint8_t byte : ka::host_address())
        identity = identity << 8U | byte;
    return identity;
}

base::Result<InterfaceWatch> InterfaceWatch::open() {
    auto socket = netlink_socket(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
    if (!socket.ok()) return std::move(socket).error();
    return InterfaceWatch(std::move(socket).value());
}

bool InterfaceWatch::changed() {
    std::array<std::byte, 8192> buffer;
    bool any = false;
    for (;;) {
        const ssize_t received = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (received < 0 && errno == EINTR) continue;
        // Overflow: something has changed, and what is queued after it does not matter more.
        if (received < 0 && errno != ENOBUFS) return any;
        any = true;
    }
}

}  // namespace via::na::net
