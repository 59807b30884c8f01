// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/page_lender.hpp"

#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/kernel_version.hpp"

namespace via::na::net {
namespace {

const std::size_t page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// Whatever the socket still holds back goes, and the peer finds it too short.
void let_go(int socket) noexcept {
    const int error_number = errno;
    const int off = 0;
    (void)::setsockopt(socket, SOL_UDP, UDP_CORK, &off, sizeof off);
    errno = error_number;
}

}  // namespace

/// Linux 6.5 was the first to hand all pages of a pipe to a socket in one go.
bool PageLender::kernel_can() noexcept {
    return base::kernel_is_at_least(6, 5);
}

bool PageLender::fits(std::span<const iovec> data) noexcept {
    std::size_t pages = 0;
    for (const iovec& part : data) {
        const std::size_t begins = reinterpret_cast<std::uintptr_t>(part.iov_base) % page_bytes;
        pages += (begins + part.iov_len + page_bytes - 1) / page_bytes;
    }
    return pages <= most_pages;
}

bool PageLender::open_pipe() noexcept {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        out_.reset(ends[0]);
        in_.reset(ends[1]);
        // Who has very many pipes gets smaller ones.
        const int bytes = ::fcntl(in_.get(), F_GETPIPE_SZ);
        if (bytes >= static_cast<int>(most_pages * page_bytes)) return true;
        close_pipe();
    }
    blame();
    return false;
}

void PageLender::close_pipe() noexcept {
    in_.reset();
    out_.reset();
}

bool PageLender::end_with(int socket, std::span<const iovec> data) noexcept {
    std::size_t bytes = 0;
    for (const iovec& part : data)
        bytes += part.iov_len;
    const auto whole = static_cast<ssize_t>(bytes);
    const auto attempt = [&] {
        const ssize_t lent = ::vmsplice(in_.get(), data.data(), data.size(), SPLICE_F_NONBLOCK);
        if (lent == whole) {
            const ssize_t sent =
                ::splice(out_.get(), nullptr, socket, nullptr, bytes, SPLICE_F_NONBLOCK);
            if (sent == whole) return true;
            if (sent >= 0) errno = EMSGSIZE;
        } else if (lent >= 0) {
            errno = EFAULT;
        }
        return false;
    };
    if (attempt()) [[likely]] {
        failures_ = 0;
        return true;
    }
    const int error_number = errno;
    close_pipe();  // and forget what is in it
    errno = error_number;
    let_go(socket);
    return false;
}

}  // namespace via::na::net
