// SPDX-License-Identifier: BSD-3-Clause
#include "modes/kernel_carrier.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>

namespace via::tool {
namespace {

/// A call that says EAGAIN until it can be done: the bytes it moved, or -1.
template <class Call>
ssize_t repeat(const Patience& patience, Call call) {
    ssize_t moved = -1;
    const bool done = patience.wait([&] {
        moved = call();
        return moved >= 0 || (errno != EAGAIN && errno != EINTR);
    });
    return done ? moved : -1;
}

bool send_plain(int socket, const Patience& patience, const void* from, std::size_t bytes) {
    // What the other side will fetch was written before it can hear of it.
    std::atomic_thread_fence(std::memory_order_release);
    return repeat(patience, [&] {
               return ::send(socket, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
           }) == static_cast<ssize_t>(bytes);
}

bool receive_plain(int socket, const Patience& patience, void* to, std::size_t bytes) {
    const ssize_t came =
        repeat(patience, [&] { return ::recv(socket, to, bytes, MSG_DONTWAIT | MSG_TRUNC); });
    std::atomic_thread_fence(std::memory_order_acquire);
    return came == static_cast<ssize_t>(bytes);
}

}  // namespace

base::Result<std::pair<base::UniqueFd, base::UniqueFd>> KernelCarrier::make_ends(
    std::size_t most_bytes) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return base::system_error(errno, "creating a pair of sockets");
    std::pair<base::UniqueFd, base::UniqueFd> result{base::UniqueFd(ends[0]),
                                                     base::UniqueFd(ends[1])};
    // The kernel counts its own overhead, too.
    const int wanted = static_cast<int>(2 * (most_bytes + sizeof(Instruction)) + 65536);
    for (const int end : ends) {
        int now = 0;
        socklen_t length = sizeof now;
        if (getsockopt(end, SOL_SOCKET, SO_SNDBUF, &now, &length) == 0 && now >= wanted) continue;
        if (setsockopt(end, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted) != 0)
            return base::system_error(
                errno, fmt::format("giving a socket a buffer for {} bytes", most_bytes));
    }
    return result;
}

bool KernelCarrier::send_word(Reference word) {
    return send_plain(socket_, patience_, &word, sizeof word);
}

bool KernelCarrier::send_structure(const Instruction& structure) {
    return send_plain(socket_, patience_, &structure, sizeof structure);
}

bool KernelCarrier::send_all(const Instruction& structure, const std::byte* data) {
    iovec parts[2] = {{const_cast<Instruction*>(&structure), sizeof structure},
                      {const_cast<std::byte*>(data), structure.bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    return repeat(patience_, [&] {
               return ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
           }) == static_cast<ssize_t>(sizeof structure + structure.bytes);
}

bool KernelCarrier::receive_word(Reference& word) {
    return receive_plain(socket_, patience_, &word, sizeof word);
}

bool KernelCarrier::receive_structure(Instruction& structure) {
    return receive_plain(socket_, patience_, &structure, sizeof structure);
}

bool KernelCarrier::receive_all(Instruction& structure, std::span<std::byte> place) {
    iovec parts[2] = {{&structure, sizeof structure}, {place.data(), place.size()}};
    const ssize_t came = repeat(patience_, [&] {
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        const ssize_t moved = ::recvmsg(socket_, &message, MSG_DONTWAIT);
        if (moved >= 0 && (message.msg_flags & MSG_TRUNC) != 0) return ssize_t{0};
        return moved;
    });
    return came >= static_cast<ssize_t>(sizeof structure) &&
           static_cast<std::size_t>(came) == sizeof structure + structure.bytes;
}

}  // namespace via::tool
