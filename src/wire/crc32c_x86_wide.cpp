// SPDX-License-Identifier: BSD-3-Clause
// This file alone is compiled for processors with AVX-512 and VPCLMULQDQ, so it includes nothing
// whose inline functions another file might get from here.
//
// As crc32c_x86.cpp, with four times the width: four accumulators of 64 bytes each step over 256
// bytes at a time. What does not fill them comes first, not last: zeros in front change nothing, so
// the first round takes as many blocks as the last accumulators hold, and before that the bytes
// that fill no block go through the CRC instruction while the blocks behind them are being loaded.
// In long data the blocks are lines of the cache instead, and what is over is at both ends: of what
// is read, or, if it is copied, of where it goes. Those lines are asked for ahead as well.
#include "wire/crc32c_hardware.hpp"

#if VIA_CRC32C_X86

#include <immintrin.h>

#include "wire/crc32c_polynomial.hpp"

namespace via::wire {
namespace {

using Byte = unsigned char;
using Vector = __m512i;

constexpr std::size_t block_bytes = sizeof(Vector);
constexpr std::size_t lanes = 4;
constexpr int all_three = 0x96;  ///< a XOR b XOR c
/// From here on it pays that blocks are lines of the cache and are asked for in time.
constexpr std::size_t long_bytes = 8192;
constexpr std::size_t asked_ahead_bytes = 1536;
constexpr std::size_t asked_ahead_to_write_bytes = 1024;

/// What is done with data, and with how much of it.
enum class Pass { Checks, ChecksLong, Copies, CopiesLong };
constexpr bool copies(Pass pass) {
    return pass == Pass::Copies || pass == Pass::CopiesLong;
}

/// Where the data is read, and, if it is copied on the way, where it goes.
struct Cursor {
    const Byte* from;
    Byte* to;  ///< null: nowhere
};

template <Pass pass>
inline Vector take(const Cursor& data, std::size_t block) {
    const Byte* from = data.from + block * block_bytes;
    if constexpr (pass == Pass::ChecksLong || pass == Pass::CopiesLong)
        _mm_prefetch(from + asked_ahead_bytes, _MM_HINT_T0);
    const Vector value = _mm512_loadu_si512(from);
    if constexpr (copies(pass)) {
        Byte* to = data.to + block * block_bytes;
        if constexpr (pass == Pass::CopiesLong)
            __builtin_prefetch(to + asked_ahead_to_write_bytes, 1);
        _mm512_storeu_si512(to, value);
    }
    return value;
}
template <Pass pass>
inline void advance(Cursor& data, std::size_t bytes) {
    data.from += bytes;
    if constexpr (copies(pass)) data.to += bytes;
}
inline Vector everywhere(Crc32cStep step) {
    return _mm512_broadcast_i32x4(
        _mm_set_epi64x(static_cast<long long>(step.second), static_cast<long long>(step.first)));
}
inline Vector add(Vector a, Vector b) {
    return _mm512_xor_si512(a, b);
}
/// `value` carried over what the step says, and the data there.
inline Vector carry(Vector value, Vector step, Vector data) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, step, 0x00),
                                     _mm512_clmulepi64_epi128(value, step, 0x11), data, all_three);
}

template <class Word>
inline Word word_at(const Byte*& from) {
    Word word;
    __builtin_memcpy(&word, from, sizeof word);
    from += sizeof word;
    return word;
}

/// Fewer bytes than a block.
inline std::uint32_t plain(std::uint32_t value, const Byte* from, std::size_t bytes) {
    for (; bytes >= 8; bytes -= 8)
        value = static_cast<std::uint32_t>(_mm_crc32_u64(value, word_at<std::uint64_t>(from)));
    if ((bytes & 4) != 0) value = _mm_crc32_u32(value, word_at<std::uint32_t>(from));
    if ((bytes & 2) != 0) value = _mm_crc32_u16(value, word_at<std::uint16_t>(from));
    if ((bytes & 1) != 0) value = _mm_crc32_u8(value, word_at<Byte>(from));
    return value;
}
template <Pass pass>
inline std::uint32_t take_few(std::uint32_t value, Cursor& data, std::size_t bytes) {
    if constexpr (copies(pass)) {
        const __mmask64 some = (__mmask64{1} << bytes) - 1;
        _mm512_mask_storeu_epi8(data.to, some, _mm512_maskz_loadu_epi8(some, data.from));
    }
    value = plain(value, data.from, bytes);
    advance<pass>(data, bytes);
    return value;
}

/// The remainder of the 64 bytes.
inline std::uint32_t remainder(Vector value) {
    constexpr Crc32cStep three = step_over(48);
    constexpr Crc32cStep two = step_over(32);
    constexpr Crc32cStep one = step_over(16);
    const Vector steps = _mm512_set_epi64(
        0, 0, static_cast<long long>(one.second), static_cast<long long>(one.first),
        static_cast<long long>(two.second), static_cast<long long>(two.first),
        static_cast<long long>(three.second), static_cast<long long>(three.first));
    // The last quarter stays where it is.
    const Vector parts = carry(value, steps, _mm512_maskz_mov_epi64(0xC0, value));
    const __m256i half =
        _mm256_xor_si256(_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64(parts, 1));
    const __m128i quarter =
        _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const std::uint64_t first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(quarter));
    const std::uint64_t second = static_cast<std::uint64_t>(_mm_extract_epi64(quarter, 1));
    return static_cast<std::uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, first), second));
}

/// At least one block.
template <Pass pass>
inline std::uint32_t fold(std::uint32_t value, Cursor data, std::size_t blocks) {
    const Vector begun = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(value)));
    Vector a = _mm512_setzero_si512();
    Vector b = a;
    Vector c = a;
    Vector d;
    std::size_t rounds = (blocks - 1) / lanes;
    const std::size_t first = blocks - rounds * lanes;
    switch (first) {
        case 4:
            a = add(take<pass>(data, 0), begun);
            b = take<pass>(data, 1);
            c = take<pass>(data, 2);
            d = take<pass>(data, 3);
            break;
        case 3:
            b = add(take<pass>(data, 0), begun);
            c = take<pass>(data, 1);
            d = take<pass>(data, 2);
            break;
        case 2:
            c = add(take<pass>(data, 0), begun);
            d = take<pass>(data, 1);
            break;
        default:
            d = add(take<pass>(data, 0), begun);
            break;
    }
    advance<pass>(data, first * block_bytes);
    const Vector round = everywhere(step_over(lanes * block_bytes));
    for (; rounds != 0; --rounds) {
        a = carry(a, round, take<pass>(data, 0));
        b = carry(b, round, take<pass>(data, 1));
        c = carry(c, round, take<pass>(data, 2));
        d = carry(d, round, take<pass>(data, 3));
        advance<pass>(data, lanes * block_bytes);
    }
    if (blocks == 1) return remainder(d);
    const Vector by_one = everywhere(step_over(block_bytes));
    const Vector by_two = everywhere(step_over(2 * block_bytes));
    return remainder(carry(carry(a, by_one, b), by_two, carry(c, by_one, d)));
}

template <Pass pass>
inline std::uint32_t run(std::uint32_t seed, Cursor data, std::size_t bytes) {
    const std::uint32_t value = take_few<pass>(~seed, data, bytes % block_bytes);
    return ~(bytes < block_bytes ? value : fold<pass>(value, data, bytes / block_bytes));
}

/// What lies in front of the first line and behind the last one is taken by itself.
template <Pass pass>
inline std::uint32_t run_by_lines(std::uint32_t seed, Cursor data, std::size_t bytes) {
    const Byte* lines = copies(pass) ? data.to : data.from;
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(lines) % block_bytes;
    const std::size_t blocks = (bytes - before) / block_bytes;
    std::uint32_t value = take_few<pass>(~seed, data, before);
    value = fold<pass>(value, data, blocks);
    advance<pass>(data, blocks * block_bytes);
    return ~take_few<pass>(value, data, (bytes - before) % block_bytes);
}

}  // namespace

std::uint32_t crc32c_x86_wide(std::uint32_t seed, const void* data, std::size_t bytes) noexcept {
    const Cursor from{static_cast<const Byte*>(data), nullptr};
    return bytes >= long_bytes ? run_by_lines<Pass::ChecksLong>(seed, from, bytes)
                               : run<Pass::Checks>(seed, from, bytes);
}

std::uint32_t crc32c_copy_x86_wide(std::uint32_t seed, void* to, const void* from,
                                   std::size_t bytes) noexcept {
    const Cursor both{static_cast<const Byte*>(from), static_cast<Byte*>(to)};
    return bytes >= long_bytes ? run_by_lines<Pass::CopiesLong>(seed, both, bytes)
                               : run<Pass::Copies>(seed, both, bytes);
}

}  // namespace via::wire

#endif
