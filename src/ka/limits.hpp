// SPDX-License-Identifier: BSD-3-Clause
// What one process may have at the kernel agent. Beyond it a request fails with OutOfResources and
// a sentence that names the limit; nothing of the process or of others is touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace via::ka {

struct Limits {
    std::size_t vis = 16384;
    std::size_t regions = 65534;  ///< entries of the RMMT
    std::uint64_t kmem_bytes = std::uint64_t{1} << 40;
    std::size_t arenas = 1024;
    std::size_t waits = 4096;       ///< VipConnectWait pending
    std::size_t requests = 16384;   ///< connection requests of both kinds under way
    std::size_t unanswered = 4096;  ///< incoming requests neither accepted nor rejected
    std::uint64_t channel_bytes = std::uint64_t{64} << 20;
    std::size_t owed_messages =
        32768;  ///< replies a process has not read, beyond the socket's buffer
};

/// Sockets of one user that have not said yet who they are.
inline constexpr std::size_t max_strangers_per_user = 512;
/// How many messages of one process are served before the others have their turn.
inline constexpr std::size_t messages_per_turn = 32;
/// A repeated connection request waits for its server at most this long.
inline constexpr std::uint64_t max_patience_ns = 1'000'000'000;
/// A process that attaches must say so within this time.
inline constexpr std::uint64_t introduction_milliseconds = 5000;

}  // namespace via::ka
