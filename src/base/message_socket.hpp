// SPDX-License-Identifier: BSD-3-Clause
// Datagrams with file descriptors over a Unix SOCK_SEQPACKET socket, and who is at the other end.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::base {

inline constexpr std::size_t max_message_fds = 8;

struct PeerCredentials {
    pid_t pid;
    uid_t uid;
    gid_t gid;
};

/// The descriptors of a message. They need no memory but their own: what was taken from a socket
/// can always be handed on.
class FdList {
  public:
    FdList() = default;
    FdList(FdList&& other) noexcept
        : fds_(std::move(other.fds_)), count_(std::exchange(other.count_, 0)) {}
    FdList& operator=(FdList&& other) noexcept {
        fds_ = std::move(other.fds_);
        count_ = std::exchange(other.count_, 0);
        return *this;
    }

    /// At most max_message_fds.
    void push_back(UniqueFd fd) noexcept { fds_[count_++] = std::move(fd); }
    /// Closes those behind the first `count`.
    void keep_first(std::size_t count) noexcept {
        while (count_ > count)
            fds_[--count_] = UniqueFd();
    }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] UniqueFd& operator[](std::size_t i) noexcept { return fds_[i]; }
    [[nodiscard]] UniqueFd& front() noexcept { return fds_[0]; }
    [[nodiscard]] UniqueFd* begin() noexcept { return fds_.data(); }
    [[nodiscard]] UniqueFd* end() noexcept { return fds_.data() + count_; }

  private:
    std::array<UniqueFd, max_message_fds> fds_;
    std::size_t count_ = 0;
};

struct ReceivedMessage {
    std::size_t bytes = 0;  ///< 0: the other side has closed
    FdList fds;
    bool truncated = false;  ///< longer than the buffer, or descriptors were lost
};

/// A socket address: "@name" is the abstract namespace (no file), anything else a path.
[[nodiscard]] Result<UniqueFd> listen_message_socket(const std::string& address);
[[nodiscard]] Result<UniqueFd> connect_message_socket(const std::string& address);

[[nodiscard]] Result<PeerCredentials> peer_credentials(const UniqueFd& socket);
/// A pidfd of the process at the other end, free of pid reuse where the kernel allows it.
[[nodiscard]] Result<UniqueFd> peer_pidfd(const UniqueFd& socket);

/// Sends one message. With a full socket buffer it waits until the deadline.
[[nodiscard]] Result<void> send_message(const UniqueFd& socket, std::span<const std::byte> message,
                                        std::span<const int> fds, Deadline deadline);
/// Receives one message, not blocking. Error Timeout: nothing is there.
[[nodiscard]] Result<ReceivedMessage> receive_message(const UniqueFd& socket,
                                                      std::span<std::byte> buffer);

}  // namespace via::base
