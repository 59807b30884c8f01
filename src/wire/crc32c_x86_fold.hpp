// SPDX-License-Identifier: BSD-3-Clause
// CRC32C on x86 without AVX-512.
//
// Data is folded: eight accumulators, a vector each, walk over the data side by side. To step over
// a round of eight vectors, every 16 bytes of an accumulator are multiplied by a power of x modulo
// the polynomial, which leaves 16 bytes with the same remainder, and the data at its new place is
// added. In the end the eight are folded into one, and the CRC instruction takes its remainder.
//
// Long data that is not copied is cut in four, so that another unit of the processor works as well:
//
//   three parts in front: the CRC instruction,       back: folded, 8 vectors a round
//                         a few words a round of each
//
// The CRC instruction takes three cycles, and a new one can begin in each: hence three parts. In
// the end the CRC of each is carried over what lies behind it.
//
// Everything is a template of `Processor`, a type of the including file's own: that file is
// compiled for processors for which others must not be compiled, so it can share no function.
#pragma once

#include <immintrin.h>

#include "wire/crc32c_polynomial.hpp"

namespace via::wire {

/// Processor::Vector is 16 bytes or several times that; Processor::front_words is how many words
/// of each part in front the CRC instruction takes while eight vectors are folded.
template <class Processor>
class Crc32cX86 {
    using Byte = unsigned char;
    using Vector = typename Processor::Vector;

    static constexpr std::size_t lanes = 8;
    static constexpr std::size_t round_bytes = lanes * sizeof(Vector);
    static constexpr std::size_t line_bytes = 64;

    static constexpr std::size_t front_words = Processor::front_words;
    static constexpr std::size_t front_bytes = front_words * sizeof(std::uint64_t);
    static constexpr std::size_t long_round_bytes = 3 * front_bytes + round_bytes;
    static constexpr std::size_t most_long_rounds = 64;  ///< longer data is done piece by piece
    /// Below, carrying the parts costs more than is won.
    static constexpr std::size_t long_bytes = 1024;

    /// Data comes from the program's memory, whose next page the processor does not foresee: so far
    /// ahead it is asked for.
    static constexpr std::size_t ahead = 1024;

    /// What carries the CRC of each part to the end, by the number of rounds.
    struct Jumps {
        Crc32cJumps<most_long_rounds> part[3] = {
            jumps_over<most_long_rounds>(2 * front_bytes + round_bytes),
            jumps_over<most_long_rounds>(front_bytes + round_bytes),
            jumps_over<most_long_rounds>(round_bytes)};
    };
    static constexpr Jumps jumps{};

    static constexpr Crc32cStep over_16 = make_step_over(16);
    static constexpr Crc32cStep over_one = make_step_over(sizeof(Vector));
    static constexpr Crc32cStep over_two = make_step_over(2 * sizeof(Vector));
    static constexpr Crc32cStep over_four = make_step_over(4 * sizeof(Vector));
    static constexpr Crc32cStep over_round = make_step_over(round_bytes);

    static void ask_for(const Byte* from) {
        _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
    }
    static std::uint64_t word_at(const Byte* from) {
        std::uint64_t word;
        __builtin_memcpy(&word, from, sizeof word);
        return word;
    }
    static Vector load(const Byte* from) {
        Vector vector;
        __builtin_memcpy(&vector, from, sizeof vector);
        return vector;
    }

    static __m128i of(std::uint64_t word) {
        return _mm_cvtsi64_si128(static_cast<long long>(word));
    }
    static __m128i of(Crc32cStep step) {
        return _mm_set_epi64x(static_cast<long long>(step.second),
                              static_cast<long long>(step.first));
    }
    static Vector everywhere(Crc32cStep step) { return Processor::everywhere(of(step)); }
    static Vector add(Vector a, Vector b) { return Processor::add(a, b); }
    static Vector carry(Vector value, Vector step, Vector data) {
        return add(Processor::multiply(value, step), data);
    }

    static std::uint32_t crc(std::uint32_t value, std::uint64_t data) {
        return static_cast<std::uint32_t>(_mm_crc32_u64(value, data));
    }
    static std::uint32_t crc(std::uint32_t value, std::uint32_t data) {
        return _mm_crc32_u32(value, data);
    }
    static std::uint32_t crc(std::uint32_t value, std::uint16_t data) {
        return _mm_crc32_u16(value, data);
    }
    static std::uint32_t crc(std::uint32_t value, Byte data) { return _mm_crc32_u8(value, data); }

    /// The data on its way. If it is copied, it is so while it is read.
    template <bool copies>
    struct Cursor {
        const Byte* from;
        Byte* to;  ///< null unless it is copied
        std::size_t left;

        template <class Item>
        Item take() {
            Item item;
            __builtin_memcpy(&item, from, sizeof item);
            if constexpr (copies) __builtin_memcpy(to, &item, sizeof item);
            advance(sizeof item);
            return item;
        }
        void ask_ahead() const {
            for (std::size_t at = 0; at < round_bytes; at += line_bytes)
                ask_for(from + ahead + at);
        }
        void advance(std::size_t bytes) {
            from += bytes;
            if constexpr (copies) to += bytes;
            left -= bytes;
        }
    };

    /// Eight neighbours become one, which stands where the last of them did; its remainder, with
    /// `others` added to its last word.
    static std::uint32_t add_up(const Vector* lane, std::uint64_t others) {
        const Vector by_one = everywhere(over_one);
        const Vector by_two = everywhere(over_two);
        const Vector by_four = everywhere(over_four);
        const Vector pair0 = carry(lane[0], by_one, lane[1]);
        const Vector pair1 = carry(lane[2], by_one, lane[3]);
        const Vector pair2 = carry(lane[4], by_one, lane[5]);
        const Vector pair3 = carry(lane[6], by_one, lane[7]);
        const Vector four0 = carry(pair0, by_two, pair1);
        const Vector four1 = carry(pair2, by_two, pair3);
        const __m128i all = Processor::narrow(carry(four0, by_four, four1), of(over_16));
        const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(all));
        const auto second =
            static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(all, all)));
        return crc(crc(0, first), second ^ others);
    }

    /// At least one round; leaves less than a vector.
    template <bool copies>
    static std::uint32_t fold(std::uint32_t value, Cursor<copies>& cursor) {
        Cursor<copies> data = cursor;  // in registers: what is copied can not be written to them
        // The second half is for the vectors after the last whole round, so that they too are
        // folded side by side: the eight youngest are always neighbours.
        Vector lane[2 * lanes];
        for (std::size_t i = 0; i < lanes; ++i)
            lane[i] = data.template take<Vector>();
        lane[0] = add(lane[0], Processor::first(of(std::uint64_t{value})));

        const Vector round = everywhere(over_round);
        while (data.left >= round_bytes) {
            if constexpr (copies) data.ask_ahead();
            for (std::size_t i = 0; i < lanes; ++i)
                lane[i] = carry(lane[i], round, data.template take<Vector>());
        }

        std::size_t oldest = 0;
        for (; data.left >= sizeof(Vector); ++oldest)
            lane[lanes + oldest] = carry(lane[oldest], round, data.template take<Vector>());
        cursor = data;
        return add_up(lane + oldest, 0);
    }

    static std::uint64_t carried(std::uint64_t value, std::uint64_t jump) {
        return static_cast<std::uint64_t>(
            _mm_cvtsi128_si64(_mm_clmulepi64_si128(of(value), of(jump), 0x00)));
    }

    /// By both units.
    static std::uint32_t check_piece(std::uint32_t value, const Byte* from, std::size_t rounds) {
        const Byte* part[3] = {from, from + rounds * front_bytes, from + 2 * rounds * front_bytes};
        const Byte* back = from + 3 * rounds * front_bytes;
        std::uint64_t sum[3] = {value, 0, 0};
        Vector lane[lanes];
        for (Vector& one : lane)
            one = Processor::first(of(0));
        const Vector step = everywhere(over_round);
        for (std::size_t round = 0; round < rounds; ++round) {
            for (const Byte* one : part)
                ask_for(one + ahead);
            for (std::size_t at = 0; at < round_bytes; at += line_bytes)
                ask_for(back + ahead + at);
            for (std::size_t i = 0; i < lanes; ++i) {
                lane[i] = carry(lane[i], step, load(back + i * sizeof(Vector)));
                if (i >= front_words) continue;
                for (std::size_t k = 0; k < 3; ++k)
                    sum[k] = _mm_crc32_u64(sum[k], word_at(part[k] + i * sizeof(std::uint64_t)));
            }
            for (const Byte*& one : part)
                one += front_bytes;
            back += round_bytes;
        }
        return add_up(lane, carried(sum[0], jumps.part[0].over[rounds]) ^
                                carried(sum[1], jumps.part[1].over[rounds]) ^
                                carried(sum[2], jumps.part[2].over[rounds]));
    }

    /// Whole rounds of long data; what is left is shorter than one.
    static std::uint32_t check_long(std::uint32_t value, Cursor<false>& data) {
        while (data.left >= long_round_bytes) {
            const std::size_t whole = data.left / long_round_bytes;
            const std::size_t rounds = whole < most_long_rounds ? whole : most_long_rounds;
            value = check_piece(value, data.from, rounds);
            data.advance(rounds * long_round_bytes);
        }
        return value;
    }

    template <bool copies>
    static std::uint32_t run(std::uint32_t seed, Cursor<copies> data) {
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

  public:
    static std::uint32_t check(std::uint32_t seed, const void* data, std::size_t bytes) {
        return run<false>(seed, {static_cast<const Byte*>(data), nullptr, bytes});
    }
    static std::uint32_t copy(std::uint32_t seed, void* to, const void* from, std::size_t bytes) {
        return run<true>(seed, {static_cast<const Byte*>(from), static_cast<Byte*>(to), bytes});
    }
};

}  // namespace via::wire
