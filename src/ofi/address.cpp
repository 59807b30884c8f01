// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <rdma/fi_errno.h>

#include "base/fd.hpp"

namespace via::ofi {
namespace {

constexpr std::string_view text_scheme = "fi_sockaddr_in://";

mvich::HostPort name_of(const sockaddr_in& address) noexcept {
    mvich::HostPort name;
    std::memcpy(name.host.data(), &address.sin_addr, 4);
    name.port = ntohs(address.sin_port);
    return name;
}

std::optional<mvich::HostPort> read_text(std::string_view text) {
    if (!text.starts_with(text_scheme)) return std::nullopt;
    text.remove_prefix(text_scheme.size());
    const std::size_t colon = text.rfind(':');
    const std::string host(text.substr(0, colon));
    sockaddr_in address{};
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return std::nullopt;
    mvich::HostPort name = name_of(address);
    if (colon == std::string_view::npos) return name;
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), name.port);
    if (error != std::errc{} || end != port.data() + port.size()) return std::nullopt;
    return name;
}

}  // namespace

bool is_known_format(std::uint32_t format) noexcept {
    return format == FI_FORMAT_UNSPEC || format == FI_SOCKADDR || format == FI_SOCKADDR_IN ||
           format == FI_ADDR_STR;
}

std::optional<mvich::HostPort> read_address(std::uint32_t format, const void* address,
                                            std::size_t bytes) {
    if (address == nullptr) return std::nullopt;
    if (format == FI_ADDR_STR) return read_text(static_cast<const char*>(address));
    sockaddr_in socket{};
    if (bytes < sizeof socket) return std::nullopt;
    std::memcpy(&socket, address, sizeof socket);
    if (socket.sin_family != AF_INET) return std::nullopt;
    return name_of(socket);
}

std::string text_of(const mvich::HostPort& name) {
    char host[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, name.host.data(), host, sizeof host);
    return std::string(text_scheme) + host + ":" + std::to_string(name.port);
}

sockaddr_in socket_address(const mvich::HostPort& name) noexcept {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(name.port);
    std::memcpy(&address.sin_addr, name.host.data(), 4);
    return address;
}

int write_address(std::uint32_t format, const mvich::HostPort& name, void* to, std::size_t* bytes) {
    const auto write = [&](const void* from, std::size_t length) {
        const std::size_t room = *bytes;
        if (to != nullptr) std::memcpy(to, from, std::min(room, length));
        *bytes = length;
        return room < length || to == nullptr ? -FI_ETOOSMALL : 0;
    };
    if (format == FI_ADDR_STR) {
        const std::string text = text_of(name);
        return write(text.c_str(), text.size() + 1);
    }
    const sockaddr_in address = socket_address(name);
    return write(&address, sizeof address);
}

bool copy_address(std::uint32_t format, const mvich::HostPort& name, void*& to,
                  std::size_t& bytes) {
    bytes = 64;
    to = std::calloc(1, bytes);
    return to != nullptr && write_address(format, name, to, &bytes) == 0;
}

std::optional<mvich::HostPort> resolve(const char* node, const char* service, bool numeric) {
    if (node != nullptr)
        if (const auto name = read_text(node)) return name;
    if (node == nullptr && service == nullptr) return mvich::HostPort{};
    addrinfo wanted{};
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = (node == nullptr ? AI_PASSIVE : 0) | (numeric ? AI_NUMERICHOST : 0);
    addrinfo* found = nullptr;
    if (getaddrinfo(node, service, &wanted, &found) != 0 || found == nullptr) return std::nullopt;
    sockaddr_in address{};
    std::memcpy(&address, found->ai_addr, sizeof address);
    freeaddrinfo(found);
    return name_of(address);
}

mvich::HostPort local_address(const std::optional<mvich::HostPort>& towards) {
    sockaddr_in address{};
    if (towards) {
        // Connecting a datagram socket sends nothing; it asks the kernel for the route.
        const base::UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        sockaddr_in peer = socket_address(*towards);
        if (peer.sin_port == 0) peer.sin_port = htons(1);
        socklen_t length = sizeof address;
        if (fd.valid() && connect(fd.get(), reinterpret_cast<sockaddr*>(&peer), sizeof peer) == 0 &&
            getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0) {
            address.sin_port = 0;
            return name_of(address);
        }
    }
    address = {};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) == 0) {
        for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
            if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
            if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
            std::memcpy(&address, one->ifa_addr, sizeof address);
            break;
        }
        freeifaddrs(list);
    }
    address.sin_port = 0;
    return name_of(address);
}

}  // namespace via::ofi
