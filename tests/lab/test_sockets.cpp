// SPDX-License-Identifier: BSD-3-Clause
#include "lab/test_sockets.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>

namespace via::lab::test {
namespace {

constexpr int receive_room = 64 << 20;

std::uint8_t pattern(std::uint64_t number, std::size_t place) {
    return static_cast<std::uint8_t>(number * 31 + place * 7 + 5);
}

void fill(std::uint8_t* bytes, std::size_t count, std::uint64_t number) {
    memcpy(bytes, &number, sizeof number);
    for (std::size_t i = sizeof number; i < count; ++i)
        bytes[i] = pattern(number, i);
}

socklen_t make_address(const std::string& text, bool ipv6, sockaddr_storage& address) {
    if (ipv6) {
        auto& its = reinterpret_cast<sockaddr_in6&>(address);
        its.sin6_family = AF_INET6;
        inet_pton(AF_INET6, text.c_str(), &its.sin6_addr);
        return sizeof its;
    }
    auto& its = reinterpret_cast<sockaddr_in&>(address);
    its.sin_family = AF_INET;
    inet_pton(AF_INET, text.c_str(), &its.sin_addr);
    return sizeof its;
}

}  // namespace

HostSocket::HostSocket(const Lab& lab, const std::string& host, unsigned link, bool ipv6)
    : address_(ipv6 ? lab.address6(host, link) : lab.address(host, link)), ipv6_(ipv6) {
    const auto made = lab.in_host(host, [&] {
        fd_.reset(
            ::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    });
    EXPECT_TRUE(made) << made.error().sentence;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_room, sizeof receive_room);
    sockaddr_storage own{};
    const socklen_t size = make_address(address_, ipv6_, own);
    if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&own), size) != 0) {
        ADD_FAILURE() << "bind to " << address_ << ": " << strerror(errno);
        fd_.reset();
    }
}

void HostSocket::connect_to(const HostSocket& other) {
    sockaddr_storage its{};
    socklen_t size = sizeof its;
    ASSERT_EQ(::getsockname(other.fd(), reinterpret_cast<sockaddr*>(&its), &size), 0);
    ASSERT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&its), size), 0) << strerror(errno);
}

int HostSocket::send(std::uint64_t number, std::size_t bytes) {
    std::vector<std::uint8_t> data(bytes);
    fill(data.data(), bytes, number);
    return ::send(fd_.get(), data.data(), bytes, 0) == static_cast<ssize_t>(bytes) ? 0 : errno;
}

int HostSocket::send_train(std::uint64_t first, std::size_t count, std::size_t bytes) {
    const int segment = static_cast<int>(bytes);
    if (::setsockopt(fd_.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) return errno;
    std::vector<std::uint8_t> data(count * bytes);
    for (std::size_t i = 0; i < count; ++i)
        fill(data.data() + i * bytes, bytes, first + i);
    const bool sent =
        ::send(fd_.get(), data.data(), data.size(), 0) == static_cast<ssize_t>(data.size());
    const int error = sent ? 0 : errno;
    const int none = 0;
    ::setsockopt(fd_.get(), SOL_UDP, UDP_SEGMENT, &none, sizeof none);
    return error;
}

std::optional<HostSocket::Datagram> HostSocket::receive(base::Deadline deadline) {
    std::uint8_t data[65536];
    for (;;) {
        const ssize_t bytes = ::recv(fd_.get(), data, sizeof data, 0);
        if (bytes >= static_cast<ssize_t>(sizeof(std::uint64_t))) {
            Datagram datagram;
            datagram.bytes = static_cast<std::size_t>(bytes);
            memcpy(&datagram.number, data, sizeof datagram.number);
            for (std::size_t i = sizeof datagram.number; i < datagram.bytes; ++i)
                datagram.intact &= data[i] == pattern(datagram.number, i);
            return datagram;
        }
        if (deadline.expired()) return std::nullopt;
        pollfd watch{fd_.get(), POLLIN, 0};
        ::poll(&watch, 1, deadline.poll_milliseconds());
    }
}

std::vector<HostSocket::Datagram> HostSocket::receive_until(std::uint64_t last) {
    std::vector<Datagram> all;
    const base::Deadline deadline = patience();
    while (auto datagram = receive(deadline)) {
        all.push_back(*datagram);
        if (datagram->number == last) break;
    }
    return all;
}

}  // namespace via::lab::test
