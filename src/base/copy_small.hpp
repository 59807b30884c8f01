// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace via::base {

/// Copies of a few bytes, without a call for the sizes that matter most.
inline void copy_small(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes >= 8) {
        if (bytes <= 16) {
            std::uint64_t head, tail;
            std::memcpy(&head, from, 8);
            std::memcpy(&tail, from + bytes - 8, 8);
            std::memcpy(to, &head, 8);
            std::memcpy(to + bytes - 8, &tail, 8);
            return;
        }
        if (bytes <= 32) {
            // Two overlapping halves; a call of memcpy takes longer.
            std::uint64_t head[2], tail[2];
            std::memcpy(head, from, 16);
            std::memcpy(tail, from + bytes - 16, 16);
            std::memcpy(to, head, 16);
            std::memcpy(to + bytes - 16, tail, 16);
            return;
        }
        std::memcpy(to, from, bytes);
        return;
    }
    if (bytes >= 4) {
        std::uint32_t head, tail;
        std::memcpy(&head, from, 4);
        std::memcpy(&tail, from + bytes - 4, 4);
        std::memcpy(to, &head, 4);
        std::memcpy(to + bytes - 4, &tail, 4);
        return;
    }
    for (std::size_t i = 0; i < bytes; ++i)
        to[i] = from[i];
}

}  // namespace via::base
