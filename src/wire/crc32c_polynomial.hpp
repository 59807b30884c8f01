// SPDX-License-Identifier: BSD-3-Clause
// The constants that carry a remainder of CRC32C over data that follows it. To be used for
// constants only: no code of this file may be shared by files that are compiled for different
// processors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace via::wire {

constexpr std::uint32_t crc32c_polynomial = 0x82F63B78U;  // reflected: bit i stands for x^(31-i)

/// `value` times x^n modulo the polynomial.
constexpr std::uint32_t times_power_of_x(std::uint32_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        value = (value >> 1) ^ ((value & 1) != 0 ? crc32c_polynomial : 0U);
    return value;
}

/// x^n modulo the polynomial.
constexpr std::uint32_t power_of_x(std::size_t n) {
    return times_power_of_x(0x80000000U, n);
}

/// What multiplies the two halves of 16 bytes to carry them over `bytes`. The product of two
/// reflected words is one x too large, hence the -1; the first half stands 64 bits higher.
struct Crc32cStep {
    std::uint64_t first;
    std::uint64_t second;
};
constexpr Crc32cStep make_step_over(std::size_t bytes) {
    return {static_cast<std::uint64_t>(power_of_x(bytes * 8 + 64 - 1)) << 32,
            static_cast<std::uint64_t>(power_of_x(bytes * 8 - 1)) << 32};
}
/// Never at run time. (Clang 14 can not do this for a width that a template is told: there it is
/// the above, in a constant.)
consteval Crc32cStep step_over(std::size_t bytes) {
    return make_step_over(bytes);
}

/// What multiplies a CRC to carry it over `n` times `bytes`, for n from 1 to `count`. The product
/// is for the CRC instruction, which multiplies by x^32 itself; with the one x from above: -33.
template <std::size_t count>
struct Crc32cJumps {
    std::uint64_t over[count + 1];
};
template <std::size_t count>
constexpr Crc32cJumps<count> jumps_over(std::size_t bytes) {
    Crc32cJumps<count> jumps{};
    std::uint32_t jump = power_of_x(bytes * 8 - 33);
    for (std::size_t n = 1; n <= count; ++n) {
        jumps.over[n] = jump;
        jump = times_power_of_x(jump, bytes * 8);
    }
    return jumps;
}

}  // namespace via::wire
