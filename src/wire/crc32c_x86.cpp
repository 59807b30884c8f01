// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with SSE4.2 and PCLMULQDQ, so it includes nothing
// whose inline functions another file might get from here.
//
// Long data is folded: eight accumulators of 16 bytes each walk over the data side by side. To step
// over 128 bytes, an accumulator is multiplied by x^1024 modulo the polynomial, which leaves 16
// bytes with the same remainder, and the data at its new place is added. In the end the eight are
// folded into one, and the CRC instruction takes its remainder.
#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_X86

#include <nmmintrin.h>
#include <wmmintrin.h>

#include "wire/crc32c_polynomial.hpp"

namespace via::wire {
namespace {

using Byte = unsigned char;
using Vector = __m128i;

inline Vector load(const Byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline Vector vector_of(std::uint64_t first, std::uint64_t second) {
    return _mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first));
}
inline Vector add(Vector a, Vector b) {
    return _mm_xor_si128(a, b);
}
inline Vector multiply(Vector value, Vector step) {
    return add(_mm_clmulepi64_si128(value, step, 0x00), _mm_clmulepi64_si128(value, step, 0x11));
}
inline std::uint64_t first_half(Vector value) {
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(value));
}
inline std::uint64_t second_half(Vector value) {
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(value, value)));
}
inline std::uint32_t crc(std::uint32_t value, std::uint64_t data) {
    return static_cast<std::uint32_t>(_mm_crc32_u64(value, data));
}
inline std::uint32_t crc(std::uint32_t value, std::uint32_t data) {
    return _mm_crc32_u32(value, data);
}
inline std::uint32_t crc(std::uint32_t value, std::uint16_t data) {
    return _mm_crc32_u16(value, data);
}
inline std::uint32_t crc(std::uint32_t value, Byte data) {
    return _mm_crc32_u8(value, data);
}

inline Vector vector_of(Crc32cStep step) {
    return vector_of(step.first, step.second);
}

constexpr std::size_t lanes = 8;
constexpr std::size_t round_bytes = lanes * sizeof(Vector);

/// The data on its way. If it is copied, it is so while it is read.
template <bool copies>
struct Cursor {
    const Byte* from;
    Byte* to;  ///< null unless it is copied
    std::size_t left;

    template <class Word>
    Word take() {
        Word word;
        __builtin_memcpy(&word, from, sizeof word);
        if constexpr (copies) __builtin_memcpy(to, &word, sizeof word);
        advance(sizeof word);
        return word;
    }
    Vector take_vector() {
        const Vector vector = load(from);
        if constexpr (copies) _mm_storeu_si128(reinterpret_cast<__m128i*>(to), vector);
        advance(sizeof vector);
        return vector;
    }

    /// What is copied comes from the program's memory, whose next page the processor does not
    /// foresee.
    void ask_ahead() const {
        constexpr std::size_t distance = 1024;
        for (std::size_t at = 0; at < round_bytes; at += 64)
            _mm_prefetch(reinterpret_cast<const char*>(from + distance + at), _MM_HINT_T0);
    }
    void advance(std::size_t bytes) {
        from += bytes;
        if constexpr (copies) to += bytes;
        left -= bytes;
    }
};

/// At least one round; leaves less than 16 bytes.
template <bool copies>
std::uint32_t fold(std::uint32_t value, Cursor<copies>& data) {
    // The second half is for the blocks after the last whole round, so that they too are folded
    // side by side: the eight youngest are always neighbours.
    Vector lane[2 * lanes];
    for (std::size_t i = 0; i < lanes; ++i)
        lane[i] = data.take_vector();
    lane[0] = add(lane[0], vector_of(value, 0));

    const Vector round = vector_of(step_over(round_bytes));
    while (data.left >= round_bytes) {
        if constexpr (copies) data.ask_ahead();
        for (std::size_t i = 0; i < lanes; ++i)
            lane[i] = add(multiply(lane[i], round), data.take_vector());
    }

    std::size_t oldest = 0;
    for (; data.left >= sizeof(Vector); ++oldest)
        lane[lanes + oldest] = add(multiply(lane[oldest], round), data.take_vector());

    const Vector* last = lane + oldest;
    const Vector by_one = vector_of(step_over(sizeof(Vector)));
    const Vector by_two = vector_of(step_over(2 * sizeof(Vector)));
    const Vector by_four = vector_of(step_over(4 * sizeof(Vector)));
    const Vector pair0 = add(multiply(last[0], by_one), last[1]);
    const Vector pair1 = add(multiply(last[2], by_one), last[3]);
    const Vector pair2 = add(multiply(last[4], by_one), last[5]);
    const Vector pair3 = add(multiply(last[6], by_one), last[7]);
    const Vector four0 = add(multiply(pair0, by_two), pair1);
    const Vector four1 = add(multiply(pair2, by_two), pair3);
    const Vector all = add(multiply(four0, by_four), four1);
    return crc(crc(0, first_half(all)), second_half(all));
}

template <bool copies>
inline std::uint32_t run(std::uint32_t seed, Cursor<copies> data) {
    std::uint32_t value = ~seed;
    if (data.left >= round_bytes) value = fold(value, data);
    while (data.left >= 8)
        value = crc(value, data.template take<std::uint64_t>());
    if ((data.left & 4) != 0) value = crc(value, data.template take<std::uint32_t>());
    if ((data.left & 2) != 0) value = crc(value, data.template take<std::uint16_t>());
    if ((data.left & 1) != 0) value = crc(value, data.template take<Byte>());
    return ~value;
}

}  // namespace

std::uint32_t crc32c_x86(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    return run<false>(seed, {static_cast<const Byte*>(data), nullptr, bytes});
}

std::uint32_t crc32c_copy_x86(std::uint32_t seed, void* to, const void* from,
                              std::size_t bytes) noexcept {
    return run<true>(seed, {static_cast<const Byte*>(from), static_cast<Byte*>(to), bytes});
}

}  // namespace via::wire

#endif
