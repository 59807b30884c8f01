// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with SSE4.2 and PCLMULQDQ.
#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_X86

#include "wire/crc32c_x86_fold.hpp"

namespace via::wire {
namespace {

struct Processor {
    using Vector = __m128i;
    static constexpr std::size_t front_words = 6;

    static Vector first(__m128i value) { return value; }
    static Vector everywhere(__m128i value) { return value; }
    static Vector add(Vector a, Vector b) { return _mm_xor_si128(a, b); }
    static Vector multiply(Vector value, Vector step) {
        return add(_mm_clmulepi64_si128(value, step, 0x00),
                   _mm_clmulepi64_si128(value, step, 0x11));
    }
    static __m128i narrow(Vector value, __m128i /*over_16_bytes*/) { return value; }
};

}  // namespace

std::uint32_t crc32c_x86(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return Crc32cX86<Processor>::check(seed, data, bytes);
}

std::uint32_t crc32c_copy_x86(std::uint32_t seed, void* to, const void* from,
                              std::size_t bytes) noexcept {
    return Crc32cX86<Processor>::copy(seed, to, from, bytes);
}

}  // namespace via::wire

#endif
