// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/pattern.hpp"

namespace via::test {

namespace {

std::byte pattern_byte(std::size_t offset, std::uint32_t seed) {
    // A multiplicative hash of the 8-byte group, so that shifted and swapped blocks differ.
    const std::uint64_t group = (offset / 8 + 1) * 0x9E3779B97F4A7C15U + seed * 0xBF58476D1CE4E5B9U;
    return static_cast<std::byte>((group >> (8 * (offset % 8))) & 0xFF);
}

}  // namespace

void fill_pattern(std::byte* data, std::size_t bytes, std::uint32_t seed) {
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = pattern_byte(i, seed);
}

testing::AssertionResult has_pattern(const std::byte* data, std::size_t bytes, std::uint32_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (data[i] != pattern_byte(i, seed)) {
            return testing::AssertionFailure()
                   << "byte " << i << " of " << bytes << " is " << std::to_integer<int>(data[i])
                   << ", not " << std::to_integer<int>(pattern_byte(i, seed));
        }
    }
    return testing::AssertionSuccess();
}

#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
bool shows_pattern(const std::byte* data, std::size_t bytes, std::uint32_t seed) {
    const auto* live = static_cast<const volatile unsigned char*>(static_cast<const void*>(data));
    for (std::size_t i = 0; i < bytes; ++i) {
        if (live[i] != std::to_integer<unsigned char>(pattern_byte(i, seed))) return false;
    }
    return true;
}

testing::AssertionResult all_bytes_are(const std::byte* data, std::size_t bytes, std::byte value) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (data[i] != value) {
            return testing::AssertionFailure()
                   << "byte " << i << " of " << bytes << " is " << std::to_integer<int>(data[i]);
        }
    }
    return testing::AssertionSuccess();
}

}  // namespace via::test
