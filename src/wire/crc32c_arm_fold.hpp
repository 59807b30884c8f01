// SPDX-License-Identifier: BSD-3-Clause
// CRC32C on ARMv8, by two units of the processor at once. The data is cut in two:
//
//   front: the CRC instruction,      back: folded by carry-less multiplication,
//          64 bytes a round                128 bytes a round, which takes as long
//
// Folding: eight lanes of 16 bytes each walk over the back side by side. To step over 128 bytes a
// lane is multiplied by x^1024 modulo the polynomial, which leaves 16 bytes with the same
// remainder, and the data at its new place is added. What is over when all whole rounds are cut is
// the front's too, and is done while the eight lanes are added up. At last the CRC of the front is
// carried over the back.
//
// Everything is a template of `Processor`, a type of the including file's own: that file is
// compiled for processors for which others must not be compiled, so it can share no function.
#pragma once

#include <arm_acle.h>
#include <arm_neon.h>

#include <type_traits>
#include <utility>

#include "wire/crc32c_polynomial.hpp"

namespace via::wire {

/// Processor::add adds three vectors.
template <class Processor>
class Crc32cArm {
    using Byte = unsigned char;
    using Vector = uint8x16_t;
    __extension__ using Pair = unsigned __int128;  // two words, read and written at one go

    static constexpr std::size_t lanes = 8;
    static constexpr std::size_t folded_bytes = lanes * sizeof(Vector);
    static constexpr std::size_t pairs = 4;
    static constexpr std::size_t front_bytes = pairs * sizeof(Pair);
    static constexpr std::size_t round_bytes = front_bytes + folded_bytes;
    static constexpr std::size_t fold_from = round_bytes;  // below, adding up costs more
    static constexpr std::size_t most_rounds = 64;         // longer data is done piece by piece

    struct alignas(16) Constants {
        Crc32cStep round = step_over(folded_bytes);
        /// From each lane to the end of the last.
        Crc32cStep last[lanes - 1] = {step_over(7 * 16), step_over(6 * 16), step_over(5 * 16),
                                      step_over(4 * 16), step_over(3 * 16), step_over(2 * 16),
                                      step_over(1 * 16)};
        Crc32cJumps<most_rounds + 1> jumps = jumps_over<most_rounds + 1>(folded_bytes);
    };
    static constexpr Constants known_constants{};

    /// Loaded from memory where they are needed. Compilers that know the values put them together
    /// piece by piece instead, in the unit that the CRC instruction needs.
    static const Constants& load_constants() {
        const Constants* constants = &known_constants;
        asm("" : "+r"(constants));
        return *constants;
    }

    static Vector load(const Crc32cStep& step) {
        return vreinterpretq_u8_u64(vld1q_u64(&step.first));
    }

    /// The data on its way.
    struct Cursor {
        const Byte* from;

        template <class Item>
        Item at(std::size_t offset) const {
            Item item;
            __builtin_memcpy(&item, from + offset, sizeof item);
            return item;
        }
        void advance(std::size_t bytes) { from += bytes; }
        template <class Item>
        Item take() {
            const Item item = at<Item>(0);
            advance(sizeof item);
            return item;
        }
    };

    static std::uint32_t crc(std::uint32_t value, Pair data) {
        value = __crc32cd(value, static_cast<std::uint64_t>(data));
        return __crc32cd(value, static_cast<std::uint64_t>(data >> 64));
    }

    /// The two products that, added, are `value` carried on by `step`.
    struct Products {
        Vector first;
        Vector second;
    };
    static Products multiply(Vector value, Vector step) {
        const poly64x2_t a = vreinterpretq_p64_u8(value);
        const poly64x2_t b = vreinterpretq_p64_u8(step);
        return {vreinterpretq_u8_p128(vmull_p64(static_cast<poly64_t>(vgetq_lane_p64(a, 0)),
                                                static_cast<poly64_t>(vgetq_lane_p64(b, 0)))),
                vreinterpretq_u8_p128(vmull_high_p64(a, b))};
    }
    static Vector carry(Vector value, Vector step, Vector and_add) {
        const Products products = multiply(value, step);
        return Processor::add(products.first, products.second, and_add);
    }

    /// Calls with each of 0 ... n-1 as a constant: what is indexed by it stays in registers.
    template <std::size_t n, class Function>
    [[gnu::always_inline]] static void for_each(Function&& function) {
        [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
            (function(std::integral_constant<std::size_t, i>{}), ...);
        }
        (std::make_index_sequence<n>{});
    }

    /// By the CRC instruction alone.
    [[gnu::always_inline]] static std::uint32_t plain(std::uint32_t value, Cursor data,
                                                      std::size_t bytes) {
        for (; bytes >= 64; bytes -= 64)
            for_each<4>([&](auto) __attribute__((always_inline)) {
                value = crc(value, data.template take<Pair>());
            });
        if ((bytes & 32) != 0) {
            value = crc(value, data.template take<Pair>());
            value = crc(value, data.template take<Pair>());
        }
        if ((bytes & 16) != 0) value = crc(value, data.template take<Pair>());
        if ((bytes & 8) != 0) value = __crc32cd(value, data.template take<std::uint64_t>());
        if ((bytes & 7) == 0) [[likely]]
            return value;
        if ((bytes & 4) != 0) value = __crc32cw(value, data.template take<std::uint32_t>());
        if ((bytes & 2) != 0) value = __crc32ch(value, data.template take<std::uint16_t>());
        if ((bytes & 1) != 0) value = __crc32cb(value, data.template take<Byte>());
        return value;
    }

    /// Each lane carried to the end of the last.
    [[gnu::always_inline]] static Vector add_up(const Vector (&lane)[lanes],
                                                const Crc32cStep (&last)[lanes - 1]) {
        const Products second = multiply(lane[1], load(last[1]));
        const Products third = multiply(lane[2], load(last[2]));
        const Products fourth = multiply(lane[3], load(last[3]));
        const Products fifth = multiply(lane[4], load(last[4]));
        const Products sixth = multiply(lane[5], load(last[5]));
        const Products seventh = multiply(lane[6], load(last[6]));
        const Vector sum =
            Processor::add(carry(lane[0], load(last[0]), lane[7]),
                           Processor::add(second.first, second.second, third.first),
                           Processor::add(third.second, fourth.first, fourth.second));
        return Processor::add(sum, Processor::add(fifth.first, fifth.second, sixth.first),
                              Processor::add(sixth.second, seventh.first, seventh.second));
    }

    /// The first round has no bytes of the front, because it has nothing to fold either; a bare
    /// one, the last, has none though it folds. `rounds` is without it, and at least 1. The front
    /// has `rest` bytes more.
    [[gnu::always_inline]] static std::uint32_t fold(std::uint32_t value, Cursor front,
                                                     std::size_t rounds, std::size_t rest,
                                                     bool has_bare_round) {
        const Constants& constants = load_constants();
        const poly64x1_t jump = vreinterpret_p64_u64(
            vld1_u64(&constants.jumps.over[rounds + (has_bare_round ? 1 : 0)]));
        const Vector round_step = load(constants.round);
        Cursor back = front;
        back.advance((rounds - 1) * front_bytes + rest);

        Vector lane[lanes];
        for_each<lanes>([&](auto i) __attribute__((always_inline)) {
            lane[i] = back.template at<Vector>(i * sizeof(Vector));
        });
        while (--rounds != 0) {
            back.advance(folded_bytes);
            for_each<pairs>([&](auto i) __attribute__((always_inline)) {
                // Mixed, so that both units have work at any time.
                const Pair words = front.template at<Pair>(i * sizeof(Pair));
                constexpr std::size_t even = 2 * i;
                constexpr std::size_t odd = even + 1;
                lane[even] =
                    carry(lane[even], round_step, back.template at<Vector>(even * sizeof(Vector)));
                value = __crc32cd(value, static_cast<std::uint64_t>(words));
                lane[odd] =
                    carry(lane[odd], round_step, back.template at<Vector>(odd * sizeof(Vector)));
                value = __crc32cd(value, static_cast<std::uint64_t>(words >> 64));
            });
            front.advance(front_bytes);
        }
        if (has_bare_round) {
            back.advance(folded_bytes);
            for_each<lanes>([&](auto i) __attribute__((always_inline)) {
                lane[i] = carry(lane[i], round_step, back.template at<Vector>(i * sizeof(Vector)));
            });
        }
        value = plain(value, front, rest);

        const Vector all = add_up(lane, constants.last);
        const auto carried = vgetq_lane_u64(
            vreinterpretq_u64_p128(vmull_p64(static_cast<poly64_t>(value),
                                             static_cast<poly64_t>(vget_lane_p64(jump, 0)))),
            0);
        const uint64x2_t halves = vreinterpretq_u64_u8(all);
        return __crc32cd(__crc32cd(0, vgetq_lane_u64(halves, 0)),
                         vgetq_lane_u64(halves, 1) ^ carried);
    }

  public:
    [[gnu::always_inline]] static std::uint32_t run(std::uint32_t seed, const void* from,
                                                    std::size_t bytes) {
        std::uint32_t value = ~seed;
        Cursor data{static_cast<const Byte*>(from)};
        if (bytes < fold_from) return ~plain(value, data, bytes);
        bytes += front_bytes;  // as if the first round had some
        for (; bytes / round_bytes > most_rounds; bytes -= most_rounds * round_bytes) {
            value = fold(value, data, most_rounds, front_bytes, false);
            data.advance(most_rounds * round_bytes);
        }
        const std::size_t rest = bytes % round_bytes;
        const bool has_bare_round = rest >= folded_bytes;
        return ~fold(value, data, bytes / round_bytes, rest - (has_bare_round ? folded_bytes : 0),
                     has_bare_round);
    }
};

}  // namespace via::wire
