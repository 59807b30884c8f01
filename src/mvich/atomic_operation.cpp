// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/atomic_operation.hpp"

#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

namespace via::mvich {

namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

// In the order of AtomicType.
using Types =
    std::tuple<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
               std::int64_t, std::uint64_t, float, double, std::complex<float>,
               std::complex<double>, long double, std::complex<long double>, Int128, Uint128>;
static_assert(std::tuple_size_v<Types> == atomic_types);

template <class T>
inline constexpr bool is_complex = false;
template <class Part>
inline constexpr bool is_complex<std::complex<Part>> = true;
template <class T>
inline constexpr bool is_floating = std::is_floating_point_v<T>;
template <class T>
inline constexpr bool is_integer = !is_complex<T> && !is_floating<T>;

constexpr bool is_comparing(AtomicOperation operation) noexcept {
    return operation >= AtomicOperation::SwapIfEqual && operation <= AtomicOperation::SwapBits;
}

/// Whether there is such a thing as this operation on values of this type.
template <class T>
constexpr bool makes_sense(AtomicOperation operation) noexcept {
    switch (operation) {
        case AtomicOperation::BitOr:
        case AtomicOperation::BitAnd:
        case AtomicOperation::BitXor:
        case AtomicOperation::SwapBits:
            return is_integer<T>;
        case AtomicOperation::Minimum:
        case AtomicOperation::Maximum:
        case AtomicOperation::SwapIfLessOrEqual:
        case AtomicOperation::SwapIfLess:
        case AtomicOperation::SwapIfGreaterOrEqual:
        case AtomicOperation::SwapIfGreater:
            return !is_complex<T>;
        case AtomicOperation::Sum:
        case AtomicOperation::Product:
        case AtomicOperation::LogicalOr:
        case AtomicOperation::LogicalAnd:
        case AtomicOperation::LogicalXor:
        case AtomicOperation::Read:
        case AtomicOperation::Write:
        case AtomicOperation::SwapIfEqual:
        case AtomicOperation::SwapIfNotEqual:
            return true;
    }
    return false;
}

/// Where integers can be added and multiplied without overflow that is undefined.
template <class T>
using Modular = std::conditional_t<sizeof(T) <= 4, std::uint32_t,
                                   std::conditional_t<sizeof(T) == 8, std::uint64_t, Uint128>>;

template <class T>
T sum(const T& one, const T& other) noexcept {
    if constexpr (is_integer<T>)
        return static_cast<T>(static_cast<Modular<T>>(one) + static_cast<Modular<T>>(other));
    else
        return one + other;
}

template <class T>
T product(const T& one, const T& other) noexcept {
    if constexpr (is_integer<T>)
        return static_cast<T>(static_cast<Modular<T>>(one) * static_cast<Modular<T>>(other));
    else
        return one * other;
}

template <class T>
using Bytes = std::array<std::byte, sizeof(T)>;

template <class T>
T value_of(const Bytes<T>& bytes) noexcept {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

/// Bytes that are no part of a value, as x86 has in its long doubles, become zero: whatever lay on
/// the stack is nothing for peers.
template <class T>
Bytes<T> bytes_of(const T& value) noexcept {
    Bytes<T> bytes{};
    if constexpr (is_complex<T>) {
        using Part = typename T::value_type;
        const Bytes<Part> real = bytes_of(value.real());
        const Bytes<Part> imaginary = bytes_of(value.imag());
        std::memcpy(bytes.data(), real.data(), sizeof real);
        std::memcpy(bytes.data() + sizeof real, imaginary.data(), sizeof imaginary);
    } else {
        constexpr bool padded =
            std::is_same_v<T, long double> && std::numeric_limits<long double>::digits == 64;
        std::memcpy(bytes.data(), &value, padded ? 10 : sizeof value);
    }
    return bytes;
}

/// What shall be there afterwards. False: what is there stays.
template <AtomicOperation operation, class T>
bool change(const Bytes<T>& before, const Bytes<T>& operand, const Bytes<T>& compare,
            Bytes<T>& after) noexcept {
    using enum AtomicOperation;
    if constexpr (operation == Read) return false;
    after = operand;
    if constexpr (operation == Read || operation == Write) return true;
    const T target = value_of<T>(before);
    const T given = value_of<T>(operand);
    if constexpr (is_comparing(operation)) {
        const T compared = value_of<T>(compare);
        if constexpr (operation == SwapIfEqual) return compared == target;
        if constexpr (operation == SwapIfNotEqual) return compared != target;
        if constexpr (operation == SwapIfLessOrEqual) return compared <= target;
        if constexpr (operation == SwapIfLess) return compared < target;
        if constexpr (operation == SwapIfGreaterOrEqual) return compared >= target;
        if constexpr (operation == SwapIfGreater) return compared > target;
        if constexpr (operation == SwapBits)
            after = bytes_of(static_cast<T>((given & compared) | (target & ~compared)));
        return true;
    }
    if constexpr (operation == Minimum) return given < target;
    if constexpr (operation == Maximum) return given > target;
    if constexpr (operation == Sum) after = bytes_of(sum(target, given));
    if constexpr (operation == Product) after = bytes_of(product(target, given));
    if constexpr (operation == BitOr) after = bytes_of(static_cast<T>(target | given));
    if constexpr (operation == BitAnd) after = bytes_of(static_cast<T>(target & given));
    if constexpr (operation == BitXor) after = bytes_of(static_cast<T>(target ^ given));
    if constexpr (operation == LogicalOr || operation == LogicalAnd || operation == LogicalXor) {
        const bool one = target != T{};
        const bool other = given != T{};
        const bool truth = operation == LogicalOr    ? one || other
                           : operation == LogicalAnd ? one && other
                                                     : one != other;
        after = bytes_of(truth ? T(1) : T{});
    }
    return true;
}

// Words of the program's memory, whatever it keeps there.
using Word8 [[gnu::may_alias]] = std::uint8_t;
using Word16 [[gnu::may_alias]] = std::uint16_t;
using Word32 [[gnu::may_alias]] = std::uint32_t;
using Word64 [[gnu::may_alias]] = std::uint64_t;

/// As one atomic instruction that is tried until nobody came between; what was there before.
template <AtomicOperation operation, class T, class Word>
Bytes<T> exchange(std::byte* at, const Bytes<T>& operand, const Bytes<T>& compare) noexcept {
    static_assert(sizeof(Word) == sizeof(T));
    auto* word = reinterpret_cast<Word*>(at);
    std::remove_cv_t<Word> seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    for (;;) {
        const auto before = std::bit_cast<Bytes<T>>(seen);
        Bytes<T> after;
        if (!change<operation, T>(before, operand, compare, after)) return before;
        const auto wanted = std::bit_cast<std::remove_cv_t<Word>>(after);
        if (__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return before;
    }
}

template <AtomicOperation operation, class T>
Bytes<T> apply_one(std::byte* at, const Bytes<T>& operand, const Bytes<T>& compare) noexcept {
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) == 0) {
        if constexpr (sizeof(T) == 1) return exchange<operation, T, Word8>(at, operand, compare);
        if constexpr (sizeof(T) == 2) return exchange<operation, T, Word16>(at, operand, compare);
        if constexpr (sizeof(T) == 4) return exchange<operation, T, Word32>(at, operand, compare);
        if constexpr (sizeof(T) == 8) return exchange<operation, T, Word64>(at, operand, compare);
    }
    Bytes<T> before;
    std::memcpy(before.data(), at, sizeof before);
    Bytes<T> after;
    if (change<operation, T>(before, operand, compare, after))
        std::memcpy(at, after.data(), sizeof after);
    return before;
}

template <AtomicOperation operation, class T>
void apply_all(void* target, const void* operand, const void* compare, void* result,
               std::size_t count) noexcept {
    auto* at = static_cast<std::byte*>(target);
    const auto* operands = static_cast<const std::byte*>(operand);
    const auto* compares = static_cast<const std::byte*>(compare);
    auto* results = static_cast<std::byte*>(result);
    for (std::size_t offset = 0; offset != count * sizeof(T); offset += sizeof(T)) {
        Bytes<T> given{};
        Bytes<T> compared{};
        if constexpr (operation != AtomicOperation::Read)
            std::memcpy(given.data(), operands + offset, sizeof given);
        if constexpr (is_comparing(operation))
            std::memcpy(compared.data(), compares + offset, sizeof compared);
        const Bytes<T> before = apply_one<operation, T>(at + offset, given, compared);
        if (results != nullptr) std::memcpy(results + offset, before.data(), sizeof before);
    }
}

using Function = void (*)(void*, const void*, const void*, void*, std::size_t) noexcept;
using Row = std::array<Function, atomic_operations>;

template <class T, std::size_t number>
constexpr Function function() noexcept {
    constexpr auto operation = static_cast<AtomicOperation>(number);
    if constexpr (makes_sense<T>(operation))
        return &apply_all<operation, T>;
    else
        return nullptr;
}

template <class T, std::size_t... numbers>
constexpr Row row(std::index_sequence<numbers...>) noexcept {
    return {function<T, numbers>()...};
}

template <std::size_t... types>
constexpr std::array<Row, atomic_types> table_of(std::index_sequence<types...>) noexcept {
    return {
        row<std::tuple_element_t<types, Types>>(std::make_index_sequence<atomic_operations>())...};
}

template <std::size_t... types>
constexpr std::array<std::size_t, atomic_types> sizes_of(std::index_sequence<types...>) noexcept {
    return {sizeof(std::tuple_element_t<types, Types>)...};
}

/// Null: there is no such operation on this type.
constexpr std::array<Row, atomic_types> functions =
    table_of(std::make_index_sequence<atomic_types>());
constexpr std::array<std::size_t, atomic_types> sizes =
    sizes_of(std::make_index_sequence<atomic_types>());

}  // namespace

std::size_t size_of(AtomicType type) noexcept {
    const auto index = static_cast<std::size_t>(type);
    return index < sizes.size() ? sizes[index] : 0;
}

bool supports(AtomicUse use, AtomicOperation operation, AtomicType type) noexcept {
    const auto row_index = static_cast<std::size_t>(type);
    const auto column = static_cast<std::size_t>(operation);
    if (row_index >= functions.size() || column >= atomic_operations ||
        functions[row_index][column] == nullptr)
        return false;
    switch (use) {
        case AtomicUse::Plain:
            return !is_comparing(operation) && operation != AtomicOperation::Read;
        case AtomicUse::Fetch:
            return !is_comparing(operation);
        case AtomicUse::Compare:
            return is_comparing(operation);
    }
    return false;
}

void apply(AtomicOperation operation, AtomicType type, void* target, const void* operand,
           const void* compare, void* result, std::size_t count) noexcept {
    functions[static_cast<std::size_t>(type)][static_cast<std::size_t>(operation)](
        target, operand, compare, result, count);
}

}  // namespace via::mvich
