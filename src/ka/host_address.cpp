// SPDX-License-Identifier: BSD-3-Clause
#include "ka/host_address.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/fd.hpp"

namespace via::ka {
namespace {

/// FNV-1a: the address needs no secrecy, only to be the same everywhere in the host.
class Hash {
  public:
    void add(const char* bytes, ssize_t count) noexcept {
        for (ssize_t i = 0; i < count; ++i)
            value_ = (value_ ^ static_cast<std::uint8_t>(bytes[i])) * 0x100000001b3ULL;
    }
    [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

  private:
    std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

/// Where the scope stands in an address.
constexpr std::size_t scope_at = 4;

}  // namespace

HostAddress host_address() {
    Hash hash;
    std::array<char, 64> text{};
    const base::UniqueFd file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    if (file.valid()) hash.add(text.data(), read(file.get(), text.data(), text.size()));
    hash.add(text.data(), readlink("/proc/self/ns/net", text.data(), text.size()));
    HostAddress address{};
    for (std::size_t i = 0; i < address.size(); ++i)
        address[i] = static_cast<std::uint8_t>(hash.value() >> (8 * i));
    address[0] = static_cast<std::uint8_t>((address[0] & 0xFC) | 0x02);  // locally administered
    return address;
}

bool AgentAddress::is_loopback() const noexcept {
    if (family == 4) return ip[0] == 127;
    if (family != 6) return false;
    return ip[15] == 1 &&
           std::all_of(ip.begin(), ip.begin() + 15, [](std::uint8_t byte) { return byte == 0; });
}

bool AgentAddress::is_link_local() const noexcept {
    if (family == 4) return ip[0] == 169 && ip[1] == 254;
    return family == 6 && ip[0] == 0xFE && (ip[1] & 0xC0) == 0x80;
}

AgentAddress undressed(const AgentAddress& address) noexcept {
    constexpr std::array<std::uint8_t, 12> clothes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (address.family != 6 || !std::equal(clothes.begin(), clothes.end(), address.ip.begin()))
        return address;
    AgentAddress bare;
    bare.family = 4;
    bare.port = address.port;
    std::copy_n(address.ip.begin() + clothes.size(), 4, bare.ip.begin());
    return bare;
}

std::optional<AgentAddress> agent_address(const NetAddress& address) noexcept {
    AgentAddress result;
    result.family = address.host[0];
    const bool fits = (result.family == 4 && address.host_bytes == ip4_host_bytes) ||
                      (result.family == 6 && address.host_bytes == ip6_host_bytes);
    if (!fits) return {};
    result.port = static_cast<std::uint16_t>(address.host[1] << 8 | address.host[2]);
    std::copy_n(address.host.begin() + 3, result.ip_bytes(), result.ip.begin());
    if (result.needs_scope())
        for (std::size_t i = scope_at; i < scope_at + 4; ++i)
            result.scope = result.scope << 8 | std::exchange(result.ip[i], std::uint8_t{0});
    return undressed(result);
}

void set_host(NetAddress& address, const AgentAddress& host) noexcept {
    address.host = {};
    address.host[0] = host.family;
    address.host[1] = static_cast<std::uint8_t>(host.port >> 8);
    address.host[2] = static_cast<std::uint8_t>(host.port);
    std::copy_n(host.ip.begin(), host.ip_bytes(), address.host.begin() + 3);
    address.host_bytes = static_cast<std::uint8_t>(3 + host.ip_bytes());
    if (host.needs_scope())
        for (std::size_t i = 0; i < 4; ++i)
            address.host[3 + scope_at + i] = static_cast<std::uint8_t>(host.scope >> (24 - 8 * i));
}

void set_host(NetAddress& address, const HostAddress& host) noexcept {
    address.host = {};
    std::copy(host.begin(), host.end(), address.host.begin());
    address.host_bytes = static_cast<std::uint8_t>(host.size());
}

void set_scope(NetAddress& address, std::uint32_t scope) noexcept {
    auto host = agent_address(address);
    if (!host || !host->needs_scope()) return;
    host->scope = scope;
    set_host(address, *host);
}

std::string readable(const AgentAddress& address) {
    if (!address.valid()) return "nowhere";
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.ip.data(), text.data(),
              text.size());
    std::string ip = text.data();
    if (address.scope != 0) {
        std::array<char, IF_NAMESIZE> name{};
        ip += "%";
        ip += if_indextoname(address.scope, name.data()) != nullptr ? std::string(name.data())
                                                                    : std::to_string(address.scope);
    }
    if (address.family == 6) ip = "[" + ip + "]";
    return ip + ":" + std::to_string(address.port);
}

std::uint16_t usual_net_port(uid_t user) noexcept {
    return static_cast<std::uint16_t>(user == 0 ? 7471 : 7472 + user % 1000);
}

}  // namespace via::ka
