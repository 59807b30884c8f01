// SPDX-License-Identifier: BSD-3-Clause
// CRC32C (Castagnoli), the checksum of every packet. With a secret of the connection as seed, a
// packet that was not meant for it fails too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace via::wire {

/// Continuable: crc32c(crc32c(seed, a), b) is crc32c(seed, ab). The usual CRC32C has the seed 0.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t seed, const void* data,
                                   std::size_t bytes) noexcept;

/// Copies and checks what it copies, each byte read once: what goes is what was checked, even if
/// the program writes there meanwhile.
[[nodiscard]] std::uint32_t crc32c_copy(std::uint32_t seed, void* to, const void* from,
                                        std::size_t bytes) noexcept;
/// Is that about as cheap as crc32c() alone?
[[nodiscard]] bool crc32c_copies() noexcept;

/// The same without the processor's instructions for it.
[[nodiscard]] std::uint32_t crc32c_portable(std::uint32_t seed, const void* data,
                                            std::size_t bytes) noexcept;

/// One way to do it. The last that a processor can go is the portable one, the first is taken.
struct Crc32cWay {
    const char* name;
    std::uint32_t (*check)(std::uint32_t seed, const void* data, std::size_t bytes) noexcept;
    /// Null: it knows no better than to copy first.
    std::uint32_t (*copy)(std::uint32_t seed, void* to, const void* from,
                          std::size_t bytes) noexcept = nullptr;
};
[[nodiscard]] std::span<const Crc32cWay> crc32c_ways() noexcept;

}  // namespace via::wire
