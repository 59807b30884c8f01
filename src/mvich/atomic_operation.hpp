// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations at the memory of a window, done by the process that owns it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace via::mvich {

/// In the order of libfabric's fi_op.
enum class AtomicOperation : std::uint8_t {
    Minimum,
    Maximum,
    Sum,
    Product,
    LogicalOr,
    LogicalAnd,
    BitOr,
    BitAnd,
    LogicalXor,
    BitXor,
    Read,
    Write,
    SwapIfEqual,
    SwapIfNotEqual,
    SwapIfLessOrEqual,
    SwapIfLess,
    SwapIfGreaterOrEqual,
    SwapIfGreater,
    SwapBits,
};
inline constexpr std::uint8_t atomic_operations = 19;

/// In the order of libfabric's fi_datatype.
enum class AtomicType : std::uint8_t {
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float,
    Double,
    FloatComplex,
    DoubleComplex,
    LongDouble,
    LongDoubleComplex,
    Int128,
    Uint128,
};
inline constexpr std::uint8_t atomic_types = 16;

/// What an operation needs: which of the three calls of libfabric it may be used in.
enum class AtomicUse : std::uint8_t { Plain, Fetch, Compare };

/// 0: there is no such type.
[[nodiscard]] std::size_t size_of(AtomicType type) noexcept;
/// Any values may be asked about.
[[nodiscard]] bool supports(AtomicUse use, AtomicOperation operation, AtomicType type) noexcept;

/// Applies it to `count` elements at `target`, which need not be aligned; nor need the others.
/// Elements of up to 8 bytes that are aligned are changed by atomic instructions, so that other
/// threads of the process may change them so, too. `result` (null: none) gets what was there
/// before. `operand` may be null for Read, `compare` for all but the swaps. A swap happens if
/// "compare <relation> target" holds. The operation is supported.
void apply(AtomicOperation operation, AtomicType type, void* target, const void* operand,
           const void* compare, void* result, std::size_t count) noexcept;

}  // namespace via::mvich
