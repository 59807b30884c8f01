// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/endpoint_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/fd.hpp"
#include "base/undo.hpp"
#include "ka/host_address.hpp"
#include "mvich/device_parts.hpp"

namespace via::mvich {
namespace {

constexpr std::string_view word = "mvich1";  // the number is the version of the packets

/// In the byte that says how long the host is: the requester takes the way inside the host if it
/// can.
constexpr std::uint8_t chooses_its_way = 0x80;

/// Is it in use, as far as bind() tells?
bool can_not_be_had(std::uint16_t port) noexcept {
    const base::UniqueFd probe(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    return bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
           errno == EADDRINUSE;
}

void put_port(std::uint8_t* to, std::uint16_t port) {
    to[0] = static_cast<std::uint8_t>(port >> 8);
    to[1] = static_cast<std::uint8_t>(port);
}

void set_host_of(DeviceParts& device, const HostPort& name, ka::NetAddress& address) {
    // A device that serves this host only knows it by its six bytes.
    if (device.nic().device().attributes().address.size() == std::tuple_size_v<ka::HostAddress>) {
        ka::set_host(address, ka::host_address());
        return;
    }
    ka::AgentAddress host;
    host.family = name.host_bytes == 16 ? 6 : 4;
    host.ip = name.host;
    ka::set_host(address, host);
}

}  // namespace

ka::NetAddress listener_address(DeviceParts& device, const HostPort& name) {
    ka::NetAddress address;
    set_host_of(device, name, address);
    std::copy(word.begin(), word.end(), address.discriminator.begin());
    put_port(address.discriminator.data() + word.size(), name.port);
    address.discriminator_bytes = static_cast<std::uint8_t>(word.size() + 2);
    return address;
}

ka::NetAddress requester_address(DeviceParts& device, const HostPort& name) {
    ka::NetAddress address = listener_address(device, name);
    std::uint8_t* at = address.discriminator.data() + address.discriminator_bytes;
    *at++ =
        static_cast<std::uint8_t>(name.host_bytes | (device.chooses_ways() ? chooses_its_way : 0));
    std::copy_n(name.host.begin(), 16, at);
    address.discriminator_bytes = static_cast<std::uint8_t>(address.discriminator_bytes + 17);
    return address;
}

std::optional<HostPort> requester_name(const ka::NetAddress& address) {
    const std::uint8_t* at = address.discriminator.data();
    if (address.discriminator_bytes != word.size() + 2 + 17 ||
        !std::equal(word.begin(), word.end(), at))
        return std::nullopt;
    at += word.size();
    HostPort name;
    name.port = static_cast<std::uint16_t>(at[0] << 8 | at[1]);
    name.host_bytes = at[2] & static_cast<std::uint8_t>(~chooses_its_way);
    if (name.host_bytes != 4 && name.host_bytes != 16) return std::nullopt;
    std::copy_n(at + 3, name.host_bytes, name.host.begin());
    return name;
}

bool requester_chooses(const ka::NetAddress& address) {
    return (address.discriminator[word.size() + 2] & chooses_its_way) != 0;
}

std::string readable(const HostPort& name) {
    char text[INET6_ADDRSTRLEN] = "?";
    inet_ntop(name.host_bytes == 16 ? AF_INET6 : AF_INET, name.host.data(), text, sizeof text);
    const std::string host = name.host_bytes == 16 ? "[" + std::string(text) + "]" : text;
    return host + ":" + std::to_string(name.port);
}

bool port_is_reserved(std::uint16_t port) {
    const std::unique_ptr<FILE, int (*)(FILE*)> sockets(std::fopen("/proc/net/udp", "re"),
                                                        std::fclose);
    if (!sockets) return true;
    char line[512];
    bool any = false;
    while (std::fgets(line, sizeof line, sockets.get()) != nullptr) {
        unsigned taken = 0;
        if (std::sscanf(line, " %*u: %*x:%x", &taken) != 1) continue;  // NOLINT: the kernel's words
        if (taken == port) return true;
        any = true;
    }
    // This process has a port itself, at least: else this is not the list it should be. And while
    // sockets come and go, the list can leave one out that was there all the time.
    return !any || can_not_be_had(port);
}

base::Result<std::thread> quiet_thread(std::function<void()> run) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    base::Undo as_before([&]() noexcept { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    try {
        return std::thread(std::move(run));
    } catch (const std::system_error& error) {
        return base::system_error(error.code().value(), "cannot start a thread for messages");
    }
}

}  // namespace via::mvich
