// SPDX-License-Identifier: BSD-3-Clause
// Where something will be written soon, in a cache line that a peer polls. To get the line back
// takes as long as to hand it over, so whoever is about to write asks for it first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cpu.hpp"

namespace via::na {

/// Its owner moves it on; others only look.
using PlaceAhead = std::atomic<std::byte*>;

// Elsewhere than on x86-64 neither has been measured, and is not done.
#if defined(__x86_64__)
inline constexpr bool asks_ahead = true;
#else
inline constexpr bool asks_ahead = false;
#endif

/// For a message of `bytes` that will be written there. Before a longer one is copied to where it
/// waits, the line would be gone again when it is needed.
inline void ask_for(const PlaceAhead* place, std::uint64_t bytes) noexcept {
    constexpr std::uint64_t most = 48;
    if (asks_ahead && place != nullptr && bytes <= most) [[likely]]
        base::prefetch_for_write(place->load(std::memory_order_relaxed));
}

/// The same for lines that nobody polls, so that they can be asked for long before.
inline void ask_for_lines(const std::byte* from, std::uint32_t bytes) noexcept {
    if (!asks_ahead) return;
    for (std::uint32_t at = 0; at < bytes; at += base::cache_line)
        base::prefetch_for_write(from + at);
}

}  // namespace via::na
