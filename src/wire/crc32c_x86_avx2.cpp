// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with AVX2 and VPCLMULQDQ, such as Zen 3 and those of
// Intel's that had AVX-512 taken away.
#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_X86

#include "wire/crc32c_x86_fold.hpp"

namespace via::wire {
namespace {

struct Processor {
    using Vector = __m256i;
    static constexpr std::size_t front_words = 8;

    static Vector first(__m128i value) { return _mm256_zextsi128_si256(value); }
    static Vector everywhere(__m128i value) { return _mm256_broadcastsi128_si256(value); }
    static Vector add(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
    static Vector multiply(Vector value, Vector step) {
        return add(_mm256_clmulepi64_epi128(value, step, 0x00),
                   _mm256_clmulepi64_epi128(value, step, 0x11));
    }
    static __m128i narrow(Vector value, __m128i over_16_bytes) {
        const __m128i low = _mm256_castsi256_si128(value);
        return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(low, over_16_bytes, 0x00),
                                           _mm_clmulepi64_si128(low, over_16_bytes, 0x11)),
                             _mm256_extracti128_si256(value, 1));
    }
};

}  // namespace

std::uint32_t crc32c_x86_avx2(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return Crc32cX86<Processor>::check(seed, data, bytes);
}

std::uint32_t crc32c_copy_x86_avx2(std::uint32_t seed, void* to, const void* from,
                                   std::size_t bytes) noexcept {
    return Crc32cX86<Processor>::copy(seed, to, from, bytes);
}

}  // namespace via::wire

#endif
