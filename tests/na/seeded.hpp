// SPDX-License-Identifier: BSD-3-Clause
// Random numbers that one seed repeats, and bytes that tell where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace via::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// How often something is repeated: less often where every step costs ten times as much.
[[nodiscard]] constexpr std::uint32_t repeated(std::uint32_t times) noexcept {
    return sanitized ? (times + 9) / 10 : times;
}

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    [[nodiscard]] std::uint64_t next() noexcept {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    /// 0 <= result < bound
    [[nodiscard]] std::uint32_t below(std::uint32_t bound) noexcept {
        return static_cast<std::uint32_t>(next() % bound);
    }
    [[nodiscard]] std::uint32_t between(std::uint32_t least, std::uint32_t most) noexcept {
        return least + below(most - least + 1);
    }
    [[nodiscard]] bool one_in(std::uint32_t chances) noexcept { return below(chances) == 0; }

  private:
    std::uint64_t state_;
};

/// The n-th byte of stream `stream`.
[[nodiscard]] inline std::byte pattern_byte(std::uint64_t stream, std::uint64_t n) noexcept {
    const std::uint64_t mixed = (stream * 0x9E3779B97F4A7C15ULL) ^ (n * 0xD6E8FEB86659FD93ULL);
    return static_cast<std::byte>(mixed >> 32 ^ mixed >> 24);
}

inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t stream,
                         std::uint64_t first = 0) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = pattern_byte(stream, first + i);
}

/// The first byte that is not the pattern's, or the number of bytes if all are.
[[nodiscard]] inline std::size_t matching_bytes(std::span<const std::byte> bytes,
                                                std::uint64_t stream,
                                                std::uint64_t first = 0) noexcept {
    std::size_t i = 0;
    while (i < bytes.size() && bytes[i] == pattern_byte(stream, first + i))
        ++i;
    return i;
}

}  // namespace via::test
