// SPDX-License-Identifier: BSD-3-Clause
#include "ka/net_socket.hpp"

// Before the C library's, which lacks what the error queue needs.
#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace via::ka {
namespace {

using base::Result;
using base::UniqueFd;

/// An address as the socket wants it: IPv4 in IPv6 clothes if the socket is of IPv6.
class SocketAddress {
  public:
    SocketAddress() = default;
    SocketAddress(const AgentAddress& address, bool six) {
        if (six) {
            auto& in = storage_.six;
            in.sin6_family = AF_INET6;
            in.sin6_port = htons(address.port);
            in.sin6_addr = dressed(address);
            in.sin6_scope_id = address.scope;
            size_ = sizeof in;
        } else {
            auto& in = storage_.four;
            in.sin_family = AF_INET;
            in.sin_port = htons(address.port);
            std::memcpy(&in.sin_addr, address.ip.data(), 4);
            size_ = sizeof in;
        }
    }
    [[nodiscard]] static in6_addr dressed(const AgentAddress& address) {
        in6_addr result{};
        if (address.family == 6) {
            std::memcpy(&result, address.ip.data(), 16);
        } else {
            result.s6_addr[10] = result.s6_addr[11] = 0xFF;
            std::memcpy(&result.s6_addr[12], address.ip.data(), 4);
        }
        return result;
    }
    /// `interface`: by which it came.
    [[nodiscard]] static AgentAddress address_of(const in6_addr& ip, std::uint16_t port,
                                                 std::uint32_t interface) {
        AgentAddress address;
        address.family = 6;
        address.port = port;
        std::memcpy(address.ip.data(), &ip, 16);
        if (address.needs_scope()) address.scope = interface;
        return undressed(address);
    }
    [[nodiscard]] static AgentAddress address_of(const in_addr& ip, std::uint16_t port) {
        AgentAddress address;
        address.family = 4;
        address.port = port;
        std::memcpy(address.ip.data(), &ip, 4);
        return address;
    }
    [[nodiscard]] AgentAddress address() const {
        if (storage_.any.sa_family == AF_INET6)
            return address_of(storage_.six.sin6_addr, ntohs(storage_.six.sin6_port),
                              storage_.six.sin6_scope_id);
        if (storage_.any.sa_family == AF_INET)
            return address_of(storage_.four.sin_addr, ntohs(storage_.four.sin_port));
        return {};
    }
    [[nodiscard]] sockaddr* data() { return &storage_.any; }
    [[nodiscard]] static constexpr socklen_t capacity() { return sizeof(storage_); }
    [[nodiscard]] socklen_t size() const { return size_; }

  private:
    union {
        sockaddr any;
        sockaddr_in four;
        sockaddr_in6 six;
    } storage_{};
    socklen_t size_ = 0;
};

bool enable(int socket, int level, int option) {
    const int on = 1;
    return setsockopt(socket, level, option, &on, sizeof on) == 0;
}

/// Room for what comes with a datagram or an error.
struct alignas(cmsghdr) ControlBuffer {
    std::array<char, 512> bytes;
};

bool is_undeliverable(int error) {
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == ENETDOWN || error == EHOSTDOWN || error == EADDRNOTAVAIL ||
           error == EAFNOSUPPORT || error == EACCES || error == EPERM || error == EINVAL;
}

/// The kernel makes "no route to host" of it, which is another thing.
bool is_forbidden(const sock_extended_err& error) {
    if (error.ee_origin == SO_EE_ORIGIN_ICMP)
        return error.ee_type == ICMP_DEST_UNREACH &&
               (error.ee_code == ICMP_NET_ANO || error.ee_code == ICMP_HOST_ANO ||
                error.ee_code == ICMP_PKT_FILTERED);
    return error.ee_origin == SO_EE_ORIGIN_ICMP6 && error.ee_type == ICMP6_DST_UNREACH &&
           error.ee_code == ICMP6_DST_UNREACH_ADMIN;
}

NetSocket::Complaint complain(const AgentAddress& peer, int error) {
    std::array<char, 128> text{};
    // The GNU one, which returns the text.
    return {peer, error == ECONNREFUSED, strerror_r(error, text.data(), text.size())};
}

}  // namespace

Result<NetSocket> NetSocket::bind(std::uint16_t port) {
    const auto attempt = [&](bool six) -> Result<NetSocket> {
        UniqueFd socket(
            ::socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket.valid()) return base::system_error(errno, "making a UDP socket");
        const int off = 0;
        if (six && setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
            return base::system_error(errno, "making a UDP socket for IPv4 and IPv6");
        AgentAddress any;
        any.family = six ? 6 : 4;
        any.port = port;
        SocketAddress address(any, six);
        if (::bind(socket.get(), address.data(), address.size()) != 0)
            return base::system_error(errno, "binding UDP port " + std::to_string(port));
        // What is missing only costs comfort: better errors, the right source address.
        enable(socket.get(), IPPROTO_IP, IP_RECVERR);
        enable(socket.get(), IPPROTO_IP, IP_PKTINFO);
        if (six) {
            enable(socket.get(), IPPROTO_IPV6, IPV6_RECVERR);
            enable(socket.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO);
        }
        return NetSocket(std::move(socket), six);
    };
    auto both = attempt(true);
    if (both) return both;
    return attempt(false);
}

std::optional<NetSocket::Complaint> NetSocket::send(const Datagram& datagram) const {
    if (!six_ && datagram.peer.family != 4)
        return Complaint{datagram.peer, false, "this host has no IPv6"};
    if (datagram.peer.needs_scope() && datagram.peer.scope == 0)
        return Complaint{datagram.peer, false,
                         "the address means a host on one link and does not say which; write the "
                         "interface behind it, as in fe80::1%eth0"};
    SocketAddress address(datagram.peer, six_);
    iovec part{const_cast<std::uint8_t*>(datagram.bytes.data()), datagram.bytes.size()};
    ControlBuffer control{};
    msghdr message{};
    message.msg_name = address.data();
    message.msg_namelen = address.size();
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (datagram.local.valid()) {
        message.msg_control = control.bytes.data();
        message.msg_controllen = control.bytes.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        if (six_) {
            in6_pktinfo info{};
            info.ipi6_addr = SocketAddress::dressed(datagram.local);
            info.ipi6_ifindex = datagram.local.scope;
            header->cmsg_level = IPPROTO_IPV6;
            header->cmsg_type = IPV6_PKTINFO;
            header->cmsg_len = CMSG_LEN(sizeof info);
            std::memcpy(CMSG_DATA(header), &info, sizeof info);
            message.msg_controllen = CMSG_SPACE(sizeof info);
        } else {
            in_pktinfo info{};
            std::memcpy(&info.ipi_spec_dst, datagram.local.ip.data(), 4);
            header->cmsg_level = IPPROTO_IP;
            header->cmsg_type = IP_PKTINFO;
            header->cmsg_len = CMSG_LEN(sizeof info);
            std::memcpy(CMSG_DATA(header), &info, sizeof info);
            message.msg_controllen = CMSG_SPACE(sizeof info);
        }
    }
    // An error that is waiting for this socket is told instead of sending; it is about some earlier
    // datagram and is in the error queue as well.
    for (int i = 0; i < 3; ++i) {
        if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0) return {};
        const int error = errno;
        if (error == ECONNREFUSED || error == EINTR) continue;
        if (is_undeliverable(error)) return complain(datagram.peer, error);
        return {};
    }
    return {};
}

std::optional<NetSocket::Received> NetSocket::receive(std::span<std::uint8_t> buffer) const {
    for (int i = 0; i < 8; ++i) {
        SocketAddress address;
        iovec part{buffer.data(), buffer.size()};
        ControlBuffer control{};
        msghdr message{};
        message.msg_name = address.data();
        message.msg_namelen = SocketAddress::capacity();
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes.data();
        message.msg_controllen = control.bytes.size();
        const ssize_t count = recvmsg(socket_.get(), &message, 0);
        if (count < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
            continue;  // an error about an earlier datagram: the error queue has it
        }
        if ((message.msg_flags & MSG_TRUNC) != 0) continue;  // none of ours is so long
        Received received{address.address(), {}, static_cast<std::size_t>(count)};
        for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
             header = CMSG_NXTHDR(&message, header)) {
            if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
                in6_pktinfo info{};
                std::memcpy(&info, CMSG_DATA(header), sizeof info);
                received.local = SocketAddress::address_of(info.ipi6_addr, 0, info.ipi6_ifindex);
            } else if (!six_ && header->cmsg_level == IPPROTO_IP &&
                       header->cmsg_type == IP_PKTINFO) {
                in_pktinfo info{};
                std::memcpy(&info, CMSG_DATA(header), sizeof info);
                received.local = SocketAddress::address_of(info.ipi_spec_dst, 0);
            }
        }
        return received;
    }
    return {};
}

std::optional<NetSocket::Complaint> NetSocket::complaint() const {
    for (int i = 0; i < 8; ++i) {
        SocketAddress address;
        std::array<std::uint8_t, 64> rest{};
        iovec part{rest.data(), rest.size()};
        ControlBuffer control{};
        msghdr message{};
        message.msg_name = address.data();  // where the datagram was to go
        message.msg_namelen = SocketAddress::capacity();
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes.data();
        message.msg_controllen = control.bytes.size();
        if (recvmsg(socket_.get(), &message, MSG_ERRQUEUE) < 0) {
            if (errno == EINTR) continue;
            return {};
        }
        for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
             header = CMSG_NXTHDR(&message, header)) {
            const bool four = header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR;
            const bool six =
                header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR;
            if (!four && !six) continue;
            sock_extended_err error{};
            std::memcpy(&error, CMSG_DATA(header), sizeof error);
            const int number = static_cast<int>(error.ee_errno);
            if (is_forbidden(error))
                return Complaint{address.address(), false,
                                 "a firewall there or on the way forbids UDP to this port (ICMP "
                                 "administratively prohibited)"};
            if (is_undeliverable(number)) return complain(address.address(), number);
        }
    }
    return {};
}

}  // namespace via::ka
