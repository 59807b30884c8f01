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
    static void step(uint8x16_t& a, uint8x16_t& b, std::uint32_t& crc, uint8x16_t step,
                     uint8x16_t data_a, uint8x16_t data_b, std::uint64_t word_a,
                     std::uint64_t word_b) {
        uint8x16_t first_a;
        uint8x16_t first_b;
        asm("pmull %[first_a].1q, %[a].1d, %[step].1d\n\t"
            "pmull2 %[a].1q, %[a].2d, %[step].2d\n\t"
            "pmull %[first_b].1q, %[b].1d, %[step].1d\n\t"
            "pmull2 %[b].1q, %[b].2d, %[step].2d\n\t"
            "eor %[a].16b, %[a].16b, %[data_a].16b\n\t"
            "eor %[b].16b, %[b].16b, %[data_b].16b\n\t"
            "eor %[a].16b, %[a].16b, %[first_a].16b\n\t"
            "eor %[b].16b, %[b].16b, %[first_b].16b\n\t"
            "crc32cx %w[crc], %w[crc], %[word_a]\n\t"
            "crc32cx %w[crc], %w[crc], %[word_b]"
            : [a] "+&w"(a), [b] "+&w"(b), [crc] "+&r"(crc), [first_a] "=&w"(first_a),
              [first_b] "=&w"(first_b)
            : [step] "w"(step), [data_a] "w"(data_a), [data_b] "w"(data_b), [word_a] "r"(word_a),
              [word_b] "r"(word_b));
    }
};

}  // namespace

std::uint32_t crc32c_arm(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return Crc32cArm<Processor, false>::run(seed, nullptr, data, bytes);
}

std::uint32_t crc32c_copy_arm(std::uint32_t seed, void* to, const void* from,
                              std::size_t bytes) noexcept {
    return Crc32cArm<Processor, true>::run(seed, to, from, bytes);
}

}  // namespace via::wire

#endif
