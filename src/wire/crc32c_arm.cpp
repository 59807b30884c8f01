// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with CRC32 and PMULL.
#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_ARM

#include "wire/crc32c_arm_fold.hpp"

namespace via::wire {
namespace {

struct Processor {
    static uint8x16_t add(uint8x16_t a, uint8x16_t b, uint8x16_t c) {
        return veorq_u8(veorq_u8(a, b), c);
    }
};

}  // namespace

std::uint32_t crc32c_arm(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return Crc32cArm<Processor>::run(seed, data, bytes);
}

}  // namespace via::wire

#endif
