// SPDX-License-Identifier: BSD-3-Clause
// Gives the kernel the end of a datagram without a copy: the program's pages go through a pipe
// (vmsplice) into a socket that holds the beginning back (MSG_MORE, splice). The kernel refers to
// the pages until the last reader is done with them; whoever writes to them before changes what is
// sent.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "base/fd.hpp"

namespace via::na::net {

class PageLender {
  public:
    /// As many pages, the first and the last perhaps in part, as a pipe takes, and as a packet of
    /// the kernel has room for behind what it was begun with.
    static constexpr std::size_t most_pages = 16;

    [[nodiscard]] bool works() const noexcept { return works_; }
    /// It works, and nothing is missing.
    [[nodiscard]] bool ready() noexcept { return works_ && (in_.valid() || open_pipe()); }
    /// In one go?
    [[nodiscard]] static bool fits(std::span<const iovec> data) noexcept;
    /// Ends the datagram that the socket holds back with `data`, and lets it go. Otherwise errno
    /// says why, and the socket holds nothing any more; what left it then is no whole packet. Only
    /// if ready().
    [[nodiscard]] bool end_with(int socket, std::span<const iovec> data) noexcept;

    /// It failed, and what was to be sent could be sent all the same. Not tried for ever.
    void blame() noexcept {
        if (++failures_ == most_failures) works_ = false;
    }
    /// From now on it is as on a system where it can not be done.
    void forbid() noexcept { works_ = false; }

  private:
    /// Each costs more than a copy.
    static constexpr unsigned most_failures = 8;
    [[nodiscard]] static bool kernel_can() noexcept;
    bool open_pipe() noexcept;
    void close_pipe() noexcept;

    /// Nothing is in it between two calls.
    base::UniqueFd in_;
    base::UniqueFd out_;
    unsigned failures_ = 0;  ///< in a row
    bool works_ = kernel_can();
};

}  // namespace via::na::net
