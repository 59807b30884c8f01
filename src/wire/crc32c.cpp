// SPDX-License-Identifier: BSD-3-Clause
#include "wire/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "base/device_copy.hpp"
#include "wire/crc32c_hardware.hpp"
#include "wire/crc32c_polynomial.hpp"

#if VIA_CRC32C_ARM
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace via::wire {
namespace {

/// table[0] is the CRC of one byte, table[k] that of the byte and k zero bytes after it: so eight
/// bytes are looked up side by side (slicing by eight).
constexpr auto make_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value >> 1) ^ ((value & 1) != 0 ? crc32c_polynomial : 0U);
        table[0][i] = value;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t i = 0; i < 256; ++i)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xFF];
    return table;
}

constexpr auto tables = make_tables();

std::uint32_t run(std::uint32_t seed, const unsigned char* from, std::size_t bytes) {
    std::uint32_t value = ~seed;
    for (; bytes >= 8; bytes -= 8, from += 8) {
        std::uint64_t block;
        std::memcpy(&block, from, 8);
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
    for (; bytes != 0; --bytes, ++from)
        value = (value >> 8) ^ tables[0][(value ^ *from) & 0xFF];
    return ~value;
}

constexpr Crc32cWay portable_way = {"portable", crc32c_portable};

/// Best first.
struct Ways {
    std::array<Crc32cWay, 4> way{};
    std::size_t count = 0;

    void add(const Crc32cWay& one) { way[count++] = one; }
};

Ways ask_processor() noexcept {
    Ways ways;
#if VIA_CRC32C_ARM
    const unsigned long has = getauxval(AT_HWCAP);
    constexpr unsigned long needed = HWCAP_CRC32 | HWCAP_PMULL;
    if ((has & needed) == needed) {
        if ((has & HWCAP_SHA3) != 0) ways.add({"arm-sha3", crc32c_arm_sha3});
        ways.add({"arm", crc32c_arm});
    }
#elif VIA_CRC32C_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0) {
        if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0) {
            if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                __builtin_cpu_supports("avx512vl") != 0)
                ways.add({"x86-wide", crc32c_x86_wide, crc32c_copy_x86_wide});
            ways.add({"x86-avx2", crc32c_x86_avx2, crc32c_copy_x86_avx2});
        }
        ways.add({"x86", crc32c_x86, crc32c_copy_x86});
    }
#endif
    ways.add(portable_way);
    return ways;
}

// Whoever comes before the processor is asked takes the portable way, which says the same.
constinit Crc32cWay chosen = portable_way;

[[maybe_unused]] const bool is_chosen = (chosen = crc32c_ways().front(), true);

}  // namespace

std::span<const Crc32cWay> crc32c_ways() noexcept {
    static const Ways ways = ask_processor();
    return {ways.way.data(), ways.count};
}

std::uint32_t crc32c_portable(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return run(seed, static_cast<const unsigned char*>(data), bytes);
}

std::uint32_t crc32c(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return chosen.check(seed, data, bytes);
}

bool crc32c_copies() noexcept {
    return chosen.copy != nullptr;
}

std::uint32_t crc32c_copy(std::uint32_t seed, void* to, const void* from,
                          std::size_t bytes) noexcept {
#if !defined(__SANITIZE_THREAD__)  // it does not know that this copies as a device does
    if (chosen.copy != nullptr) return chosen.copy(seed, to, from, bytes);
#endif
    base::device_copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    return chosen.check(seed, to, bytes);
}

}  // namespace via::wire
