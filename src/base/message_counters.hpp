// SPDX-License-Identifier: BSD-3-Clause
// What the message layer of a process has done; part of its counters page.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/counter.hpp"
#include "base/cpu.hpp"

namespace via::base {

/// Sizes in classes: 0, up to 64 B, 512 B, 4 KB, 32 KB, 256 KB, 2 MB, more.
inline constexpr std::size_t message_size_classes = 8;
[[nodiscard]] constexpr std::size_t message_size_class(std::uint64_t bytes) noexcept {
    if (bytes == 0) return 0;
    if (bytes <= 64) return 1;
    const auto at = 2 + (static_cast<std::size_t>(std::bit_width(bytes - 1)) - 7) / 3;
    return at < message_size_classes ? at : message_size_classes - 1;
}

/// In the order of mvich::Protocol: eager, r3, rget, rput.
inline constexpr std::size_t message_protocols = 4;

struct alignas(cache_line) MessageCounters {
    std::array<std::array<Counter, message_size_classes>, message_protocols> sent;
    Counter received;
    Counter unexpected;  ///< messages that came before their receive
    Counter noops_sent;
    Counter noops_received;
    Counter credit_stalls;  ///< times a message waited for credits
    Counter starvations;    ///< times all vbufs of a peer's window held unexpected messages
    Counter fallbacks;      ///< RGET or RPUT that became R3
    Counter copies;         ///< of payload out of packets
    Counter copied_bytes;
    Counter remote_operations;  ///< of peers on windows here
    // As of the last look.
    Counter devices;  ///< open ones
    Counter unexpected_now;
    Counter vbufs_in_use;
    Counter vbuf_regions;
    Counter registered_bytes;
    Counter registration_hits;
    Counter registration_misses;
    Counter registration_refused;
    Counter registration_evicted;
    Counter connections_in_host;
    Counter connections_between_hosts;
    Counter least_credits;  ///< of the connection that has fewest left

    void count_sent(std::size_t protocol, std::uint64_t bytes) noexcept {
        sent[protocol][message_size_class(bytes)].add();
    }
};

}  // namespace via::base
