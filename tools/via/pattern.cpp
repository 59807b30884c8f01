// SPDX-License-Identifier: BSD-3-Clause
#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace via::tool {
namespace {

/// A word that changes in all its bytes when either argument changes.
std::uint64_t word_at(std::uint64_t number, std::uint64_t index) {
    std::uint64_t word = (number + 1) * 0x9E3779B97F4A7C15U + index * 0xD1B54A32D192ED03U;
    word ^= word >> 32;
    word *= 0xD6E8FEB86659FD93U;
    word ^= word >> 29;
    return word;
}

}  // namespace

void write_anew(std::byte* buffer, std::size_t bytes, std::uint64_t number) {
    std::memset(buffer, static_cast<int>(number & 0xFF), bytes);
}

void fill_pattern(std::byte* buffer, std::size_t bytes, std::uint64_t number) {
    for (std::size_t offset = 0; offset < bytes; offset += 8) {
        const std::uint64_t word = word_at(number, offset);
        std::memcpy(buffer + offset, &word, std::min<std::size_t>(8, bytes - offset));
    }
}

std::optional<std::size_t> find_wrong_byte(const std::byte* buffer, std::size_t bytes,
                                           std::uint64_t number) {
    for (std::size_t offset = 0; offset < bytes; offset += 8) {
        const std::uint64_t word = word_at(number, offset);
        const std::size_t length = std::min<std::size_t>(8, bytes - offset);
        if (std::memcmp(buffer + offset, &word, length) == 0) continue;
        std::byte expected[8];
        std::memcpy(expected, &word, 8);
        for (std::size_t i = 0; i < length; ++i)
            if (buffer[offset + i] != expected[i]) return offset + i;
    }
    return std::nullopt;
}

}  // namespace via::tool
