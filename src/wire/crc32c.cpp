// SPDX-License-Identifier: BSD-3-Clause
#include "wire/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_HARDWARE && defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace via::wire {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78U;  // reflected

/// table[0] is the CRC of one byte, table[k] that of the byte and k zero bytes after it: so eight
/// bytes are looked up side by side (slicing by eight).
constexpr auto make_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0U);
        table[0][i] = value;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t i = 0; i < 256; ++i)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xFF];
    return table;
}

constexpr auto tables = make_tables();

template <bool copies>
std::uint32_t run(std::uint32_t seed, unsigned char* to, const unsigned char* from,
                  std::size_t bytes) {
    std::uint32_t value = ~seed;
    for (; bytes >= 8; bytes -= 8, from += 8) {
        std::uint64_t block;
        std::memcpy(&block, from, 8);
        if constexpr (copies) {
            std::memcpy(to, &block, 8);
            to += 8;
        }
        if constexpr (std::endian::native == std::endian::big) block = __builtin_bswap64(block);
        // Only half of it waits for what came before.
        const auto first = static_cast<std::uint32_t>(block) ^ value;
        const auto second = static_cast<std::uint32_t>(block >> 32);
        const std::uint32_t independent =
            tables[3][second & 0xFF] ^ tables[2][(second >> 8) & 0xFF] ^
            tables[1][(second >> 16) & 0xFF] ^ tables[0][second >> 24];
        value = independent ^ tables[7][first & 0xFF] ^ tables[6][(first >> 8) & 0xFF] ^
                tables[5][(first >> 16) & 0xFF] ^ tables[4][first >> 24];
    }
    for (; bytes != 0; --bytes, ++from) {
        const unsigned char byte = *from;
        if constexpr (copies) *to++ = byte;
        value = (value >> 8) ^ tables[0][(value ^ byte) & 0xFF];
    }
    return ~value;
}

bool ask_processor() noexcept {
#if VIA_CRC32C_HARDWARE && defined(__aarch64__)
    constexpr unsigned long needed = HWCAP_CRC32 | HWCAP_PMULL;
    return (getauxval(AT_HWCAP) & needed) == needed;
#elif VIA_CRC32C_HARDWARE
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0;
#else
    return false;
#endif
}

// Whoever comes before it is set takes the portable way, which says the same.
const bool is_hardware = ask_processor();

}  // namespace

bool crc32c_is_hardware() noexcept {
    return is_hardware;
}

std::uint32_t crc32c_portable(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return run<false>(seed, nullptr, static_cast<const unsigned char*>(data), bytes);
}

std::uint32_t crc32c_copy_portable(std::uint32_t seed, void* to, const void* from,
                                   std::size_t bytes) noexcept {
    return run<true>(seed, static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from),
                     bytes);
}

std::uint32_t crc32c(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
#if VIA_CRC32C_HARDWARE
    if (is_hardware) [[likely]]
        return crc32c_hardware(seed, data, bytes);
#endif
    return crc32c_portable(seed, data, bytes);
}

std::uint32_t crc32c_copy(std::uint32_t seed, void* to, const void* from,
                          std::size_t bytes) noexcept {
#if VIA_CRC32C_HARDWARE
    if (is_hardware) [[likely]]
        return crc32c_copy_hardware(seed, to, from, bytes);
#endif
    return crc32c_copy_portable(seed, to, from, bytes);
}

}  // namespace via::wire
