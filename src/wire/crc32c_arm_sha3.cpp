// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with CRC32, PMULL and SHA3; what it wants of SHA3 is
// the instruction that adds three vectors.
#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_ARM

// The order in which the source mixes the instructions for two units is faster than GCC's.
#if !defined(__clang__)
#pragma GCC optimize("no-schedule-insns")
#endif

#include "wire/crc32c_arm_fold.hpp"

namespace via::wire {
namespace {

struct Processor {
    static uint8x16_t add(uint8x16_t a, uint8x16_t b, uint8x16_t c) { return veor3q_u8(a, b, c); }
};

}  // namespace

std::uint32_t crc32c_arm_sha3(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return Crc32cArm<Processor>::run(seed, data, bytes);
}

}  // namespace via::wire

#endif
