// SPDX-License-Identifier: BSD-3-Clause
#include "base/message_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace via::base {
namespace {

struct SocketAddress {
    sockaddr_un address{};
    socklen_t length = 0;
};

Result<SocketAddress> make_address(const std::string& text) {
    SocketAddress result;
    result.address.sun_family = AF_UNIX;
    if (text.empty() || text.size() >= sizeof result.address.sun_path)
        return Result<SocketAddress>(Code::InvalidArgument,
                                     "the socket address '" + text + "' must have 1 to " +
                                         std::to_string(sizeof result.address.sun_path - 1) +
                                         " characters");
    std::memcpy(result.address.sun_path, text.data(), text.size());
    std::size_t path_bytes = text.size() + 1;
    if (text.front() == '@') {
        // Abstract: the leading byte is zero and the name is not zero-terminated.
        result.address.sun_path[0] = '\0';
        path_bytes = text.size();
    }
    result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_bytes);
    return result;
}

Result<UniqueFd> make_socket() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return system_error(errno, "cannot create a Unix socket");
    return socket;
}

}  // namespace

Result<UniqueFd> listen_message_socket(const std::string& address) {
    auto target = make_address(address);
    if (!target) return std::move(target).error();
    auto socket = make_socket();
    if (!socket) return socket;
    const auto& where = target.value();
    if (bind(socket.value().get(), reinterpret_cast<const sockaddr*>(&where.address),
             where.length) != 0)
        return system_error(errno, "cannot bind the socket " + address);
    if (listen(socket.value().get(), 256) != 0)
        return system_error(errno, "cannot listen on the socket " + address);
    return socket;
}

Result<UniqueFd> connect_message_socket(const std::string& address) {
    auto target = make_address(address);
    if (!target) return std::move(target).error();
    auto socket = make_socket();
    if (!socket) return socket;
    const auto& where = target.value();
    if (connect(socket.value().get(), reinterpret_cast<const sockaddr*>(&where.address),
                where.length) != 0) {
        const int failure = errno;
        Error error = system_error(failure, "cannot connect to the socket " + address);
        if (failure == ECONNREFUSED || failure == ENOENT) error.code = Code::NotFound;
        if (failure == EAGAIN) error.code = Code::Timeout;  // the backlog is full
        return error;
    }
    return socket;
}

Result<PeerCredentials> peer_credentials(const UniqueFd& socket) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
        return system_error(errno, "cannot read the peer's credentials");
    return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

Result<UniqueFd> peer_pidfd(const UniqueFd& socket) {
    int fd = -1;
    socklen_t length = sizeof fd;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return UniqueFd(fd);
    // Before Linux 6.5: open by number; the connected socket makes a reused pid unlikely.
    auto credentials = peer_credentials(socket);
    if (!credentials) return std::move(credentials).error();
    const long opened = syscall(SYS_pidfd_open, credentials.value().pid, 0);
    if (opened < 0) return system_error(errno, "cannot open a pidfd of the peer");
    return UniqueFd(static_cast<int>(opened));
}

Result<void> send_message(const UniqueFd& socket, std::span<const std::byte> message,
                          std::span<const int> fds, Deadline deadline) {
    if (fds.size() > max_message_fds)
        return Result<void>(Code::InvalidArgument, "too many descriptors in one message");
    iovec part{const_cast<std::byte*>(message.data()), message.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * max_message_fds)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
        cmsghdr* rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
        std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
    }
    for (;;) {
        if (sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
        if (errno == EINTR) continue;
        if (errno != EAGAIN) {
            const int failure = errno;
            Error error = system_error(failure, "cannot send on a Unix socket");
            if (failure == EPIPE || failure == ECONNRESET || failure == ENOTCONN)
                error.code = Code::ConnectionLost;
            return error;
        }
        if (deadline.expired())
            return Result<void>(Code::Timeout, "the other side of a Unix socket does not read");
        pollfd watched{socket.get(), POLLOUT, 0};
        poll(&watched, 1, deadline.poll_milliseconds());
    }
}

Result<ReceivedMessage> receive_message(const UniqueFd& socket, std::span<std::byte> buffer) {
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * max_message_fds)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ssize_t received;
    do {
        received = recvmsg(socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (received < 0 && errno == EINTR);
    if (received < 0) {
        const int failure = errno;
        // Often so, and then no memory is needed.
        if (failure == EAGAIN) return Error{Code::Timeout, "nothing there"};
        Error error = system_error(failure, "cannot receive on a Unix socket");
        if (failure == ECONNRESET) error.code = Code::ConnectionLost;
        return error;
    }
    ReceivedMessage message;
    message.bytes = static_cast<std::size_t>(received);
    message.truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            message.fds.push_back(UniqueFd(fd));
        }
    }
    return message;
}

}  // namespace via::base
