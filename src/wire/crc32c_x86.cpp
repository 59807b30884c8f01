// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with SSE4.2 and PCLMULQDQ, so it includes nothing
// whose inline functions another file might get from here.
//
// Data is folded: eight accumulators of 16 bytes each walk over the data side by side. To step
// over 128 bytes, an accumulator is multiplied by x^1024 modulo the polynomial, which leaves 16
// bytes with the same remainder, and the data at its new place is added. In the end the eight are
// folded into one, and the CRC instruction takes its remainder.
//
// Long data that is not copied is cut in four, so that another unit of the processor works as well:
//
//   three parts in front: the CRC instruction,     back: folded, 128 bytes a round
//                         48 bytes a round of each
//
// The CRC instruction takes three cycles, and a new one can begin in each: hence three parts. In
// the end the CRC of each is carried over what lies behind it.
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
inline std::uint64_t word_at(const Byte* from) {
    std::uint64_t word;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
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

/// Data comes from the program's memory, whose next page the processor does not foresee: so far
/// ahead it is asked for.
constexpr std::size_t ahead = 1024;
inline void ask_for(const Byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
}

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

    void ask_ahead() const {
        for (std::size_t at = 0; at < round_bytes; at += 64)
            ask_for(from + ahead + at);
    }
    void advance(std::size_t bytes) {
        from += bytes;
        if constexpr (copies) to += bytes;
        left -= bytes;
    }
};

/// Eight neighbours become one, which stands where the last of them did.
inline Vector add_up(const Vector* lane) {
    const Vector by_one = vector_of(step_over(sizeof(Vector)));
    const Vector by_two = vector_of(step_over(2 * sizeof(Vector)));
    const Vector by_four = vector_of(step_over(4 * sizeof(Vector)));
    const Vector pair0 = add(multiply(lane[0], by_one), lane[1]);
    const Vector pair1 = add(multiply(lane[2], by_one), lane[3]);
    const Vector pair2 = add(multiply(lane[4], by_one), lane[5]);
    const Vector pair3 = add(multiply(lane[6], by_one), lane[7]);
    const Vector four0 = add(multiply(pair0, by_two), pair1);
    const Vector four1 = add(multiply(pair2, by_two), pair3);
    return add(multiply(four0, by_four), four1);
}

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

    const Vector all = add_up(lane + oldest);
    return crc(crc(0, first_half(all)), second_half(all));
}

constexpr std::size_t front_words = 6;  ///< of each of the three parts, a round
constexpr std::size_t front_bytes = front_words * sizeof(std::uint64_t);
constexpr std::size_t long_round_bytes = 3 * front_bytes + round_bytes;
constexpr std::size_t most_long_rounds = 64;  ///< longer data is done piece by piece
/// Below, carrying the parts costs more than is won.
constexpr std::size_t long_bytes = 1024;

/// What carries the CRC of each part to the end, by the number of rounds.
struct Jumps {
    Crc32cJumps<most_long_rounds> part[3] = {
        jumps_over<most_long_rounds>(2 * front_bytes + round_bytes),
        jumps_over<most_long_rounds>(front_bytes + round_bytes),
        jumps_over<most_long_rounds>(round_bytes)};
};
constexpr Jumps jumps{};

inline std::uint64_t carried(std::uint64_t value, std::uint64_t jump) {
    return first_half(_mm_clmulepi64_si128(vector_of(value, 0), vector_of(jump, 0), 0x00));
}

/// By both units.
std::uint32_t check_piece(std::uint32_t value, const Byte* from, std::size_t rounds) {
    const Byte* part[3] = {from, from + rounds * front_bytes, from + 2 * rounds * front_bytes};
    const Byte* back = from + 3 * rounds * front_bytes;
    std::uint64_t sum[3] = {value, 0, 0};
    Vector lane[lanes];
    for (Vector& one : lane)
        one = vector_of(0, 0);
    const Vector step = vector_of(step_over(round_bytes));
    for (std::size_t round = 0; round < rounds; ++round) {
        for (const Byte* one : part)
            ask_for(one + ahead);
        ask_for(back + ahead);
        ask_for(back + ahead + 64);
        for (std::size_t i = 0; i < lanes; ++i) {
            lane[i] = add(multiply(lane[i], step), load(back + i * sizeof(Vector)));
            if (i >= front_words) continue;
            for (std::size_t k = 0; k < 3; ++k)
                sum[k] = _mm_crc32_u64(sum[k], word_at(part[k] + i * sizeof(std::uint64_t)));
        }
        for (const Byte*& one : part)
            one += front_bytes;
        back += round_bytes;
    }
    const Vector all = add_up(lane);
    const std::uint64_t front = carried(sum[0], jumps.part[0].over[rounds]) ^
                                carried(sum[1], jumps.part[1].over[rounds]) ^
                                carried(sum[2], jumps.part[2].over[rounds]);
    return crc(crc(0, first_half(all)), second_half(all) ^ front);
}

/// Whole rounds of long data; what is left is shorter than one.
std::uint32_t check_long(std::uint32_t value, Cursor<false>& data) {
    while (data.left >= long_round_bytes) {
        const std::size_t whole = data.left / long_round_bytes;
        const std::size_t rounds = whole < most_long_rounds ? whole : most_long_rounds;
        value = check_piece(value, data.from, rounds);
        data.advance(rounds * long_round_bytes);
    }
    return value;
}

template <bool copies>
inline std::uint32_t run(std::uint32_t seed, Cursor<copies> data) {
    std::uint32_t value = ~seed;
    if constexpr (!copies)
        if (data.left >= long_bytes) value = check_long(value, data);
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
