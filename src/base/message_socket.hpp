// SPDX-License-Identifier: BSD-3-Clause
// Datagrams with file descriptors over a Unix SOCK_SEQPACKET socket, and who is at the other end.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

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

struct ReceivedMessage {
    std::size_t bytes = 0;  ///< 0: the other side has closed
    std::vector<UniqueFd> fds;
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
