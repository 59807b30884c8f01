// SPDX-License-Identifier: BSD-3-Clause
#include "net/host_sockets.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace via::bench {

namespace {

using base::Result;

constexpr int udp_receive_room = 4 << 20;

Result<base::UniqueFd> make_socket(const NetPlace& place, const char* host, int type) {
    base::UniqueFd fd;
    int error = 0;
    // A socket stays in the network in which it was made, whichever process uses it.
    auto entered = place.lab->in_host(host, [&] {
        fd.reset(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
        error = errno;
    });
    if (!entered) return std::move(entered).error();
    if (!fd.valid()) return base::system_error(error, std::string("make a socket in host ") + host);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, place.lab->address(host, place.link).c_str(), &address.sin_addr);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        return base::system_error(errno, std::string("bind a socket in host ") + host);
    }
    return fd;
}

Result<sockaddr_in> name_of(const base::UniqueFd& fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        return base::system_error(errno, "ask for the name of a socket");
    }
    return address;
}

Result<void> connect_to(const base::UniqueFd& from, const base::UniqueFd& to) {
    auto address = name_of(to);
    if (!address) return std::move(address).error();
    if (::connect(from.get(), reinterpret_cast<sockaddr*>(&address.value()),
                  sizeof address.value()) != 0) {
        return base::system_error(errno, "connect two hosts of the lab");
    }
    return {};
}

void limit_waits(const base::UniqueFd& fd) {
    const timeval second{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
}

}  // namespace

Result<HostSockets> connect_udp(const NetPlace& place) {
    auto a = make_socket(place, "a", SOCK_DGRAM);
    if (!a) return std::move(a).error();
    auto b = make_socket(place, "b", SOCK_DGRAM);
    if (!b) return std::move(b).error();
    if (auto done = connect_to(a.value(), b.value()); !done) return std::move(done).error();
    if (auto done = connect_to(b.value(), a.value()); !done) return std::move(done).error();
    for (const base::UniqueFd* fd : {&a.value(), &b.value()}) {
        limit_waits(*fd);
        ::setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUF, &udp_receive_room, sizeof udp_receive_room);
    }
    return HostSockets{std::move(a.value()), std::move(b.value())};
}

Result<HostSockets> connect_tcp(const NetPlace& place, const std::string& congestion) {
    auto a = make_socket(place, "a", SOCK_STREAM);
    if (!a) return std::move(a).error();
    auto listener = make_socket(place, "b", SOCK_STREAM);
    if (!listener) return std::move(listener).error();
    for (const base::UniqueFd* fd : {&a.value(), &listener.value()}) {
        limit_waits(*fd);
        // An accepted socket takes it over from the one that listens.
        if (!congestion.empty() &&
            ::setsockopt(fd->get(), IPPROTO_TCP, TCP_CONGESTION, congestion.c_str(),
                         static_cast<socklen_t>(congestion.size())) != 0) {
            return base::system_error(errno, "choose the congestion control '" + congestion + "'");
        }
    }
    if (::listen(listener.value().get(), 1) != 0) {
        return base::system_error(errno, "listen in host b");
    }
    // The kernel of host b answers, so one thread can do both.
    if (auto done = connect_to(a.value(), listener.value()); !done) {
        return std::move(done).error();
    }
    base::UniqueFd b(::accept4(listener.value().get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!b.valid()) return base::system_error(errno, "accept a connection in host b");
    limit_waits(b);
    const int yes = 1;
    for (const base::UniqueFd* fd : {&a.value(), &b}) {
        ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    return HostSockets{std::move(a.value()), std::move(b)};
}

}  // namespace via::bench
