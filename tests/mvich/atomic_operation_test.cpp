// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/atomic_operation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <complex>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "na/seeded.hpp"

using namespace via::mvich;
using via::test::Random;
using via::test::repeated;
using enum AtomicOperation;

namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

/// Every value of these tests: small, so that every type and every result has it exactly.
using Number = std::complex<long double>;

template <class T>
struct TypeOf;
#define VIA_TYPE(T, name)                                     \
    template <>                                               \
    struct TypeOf<T> {                                        \
        static constexpr AtomicType value = AtomicType::name; \
    }
VIA_TYPE(std::int8_t, Int8);
VIA_TYPE(std::uint8_t, Uint8);
VIA_TYPE(std::int16_t, Int16);
VIA_TYPE(std::uint16_t, Uint16);
VIA_TYPE(std::int32_t, Int32);
VIA_TYPE(std::uint32_t, Uint32);
VIA_TYPE(std::int64_t, Int64);
VIA_TYPE(std::uint64_t, Uint64);
VIA_TYPE(float, Float);
VIA_TYPE(double, Double);
VIA_TYPE(std::complex<float>, FloatComplex);
VIA_TYPE(std::complex<double>, DoubleComplex);
VIA_TYPE(long double, LongDouble);
VIA_TYPE(std::complex<long double>, LongDoubleComplex);
VIA_TYPE(Int128, Int128);
VIA_TYPE(Uint128, Uint128);
#undef VIA_TYPE

template <class T>
constexpr bool complex_type = false;
template <class Part>
constexpr bool complex_type<std::complex<Part>> = true;

template <class T>
T typed(const Number& number) {
    if constexpr (complex_type<T>)
        return T(static_cast<typename T::value_type>(number.real()),
                 static_cast<typename T::value_type>(number.imag()));
    else
        return static_cast<T>(number.real());
}

template <class T>
Number number_of(const T& value) {
    if constexpr (complex_type<T>)
        return {static_cast<long double>(value.real()), static_cast<long double>(value.imag())};
    else
        return {static_cast<long double>(value), 0};
}

/// What libfabric's manual says, on numbers.
Number expected(AtomicOperation operation, Number target, Number operand, Number compare) {
    const auto bits = [](const Number& number) { return static_cast<long long>(number.real()); };
    const auto number = [](long long value) { return Number(static_cast<long double>(value), 0); };
    const bool truth = target != Number();
    const bool other = operand != Number();
    const long double order = compare.real() - target.real();
    switch (operation) {
        case Minimum:
            return target.real() < operand.real() ? target : operand;
        case Maximum:
            return target.real() > operand.real() ? target : operand;
        case Sum:
            return target + operand;
        case Product:
            return target * operand;
        case LogicalOr:
            return number(truth || other);
        case LogicalAnd:
            return number(truth && other);
        case LogicalXor:
            return number((truth && !other) || (!truth && other));
        case BitOr:
            return number(bits(target) | bits(operand));
        case BitAnd:
            return number(bits(target) & bits(operand));
        case BitXor:
            return number(bits(target) ^ bits(operand));
        case Read:
            return target;
        case Write:
            return operand;
        case SwapIfEqual:
            return compare == target ? operand : target;
        case SwapIfNotEqual:
            return compare != target ? operand : target;
        case SwapIfLessOrEqual:
            return order <= 0 ? operand : target;
        case SwapIfLess:
            return order < 0 ? operand : target;
        case SwapIfGreaterOrEqual:
            return order >= 0 ? operand : target;
        case SwapIfGreater:
            return order > 0 ? operand : target;
        case SwapBits:
            return number((bits(operand) & bits(compare)) | (bits(target) & ~bits(compare)));
    }
    return {};
}

template <class T>
class AtomicOperationOn : public testing::Test {
  public:
    static constexpr AtomicType type = TypeOf<T>::value;
    static constexpr bool is_complex = complex_type<T>;
    static constexpr bool is_floating = std::is_floating_point_v<T>;
    static constexpr bool is_signed = type != AtomicType::Uint8 && type != AtomicType::Uint16 &&
                                      type != AtomicType::Uint32 && type != AtomicType::Uint64 &&
                                      type != AtomicType::Uint128;

    static Number random_number(Random& random) {
        const auto part = [&] {
            return static_cast<long double>(random.below(6)) - (is_signed ? 3 : 0);
        };
        const long double real = part();
        return {real, is_complex ? part() : 0};
    }
    /// Of all ways to use it.
    static bool has(AtomicOperation operation) {
        return supports(AtomicUse::Fetch, operation, type) ||
               supports(AtomicUse::Compare, operation, type);
    }
};

template <class T>
std::string text(const T& value) {
    const Number number = number_of(value);
    return "(" + std::to_string(number.real()) + ", " + std::to_string(number.imag()) + ")";
}

struct CaseNames {
    template <class T>
    static std::string GetName(int index) {  // NOLINT(readability-identifier-naming)
        static constexpr std::array names{"Int8",         "Uint8",
                                          "Int16",        "Uint16",
                                          "Int32",        "Uint32",
                                          "Int64",        "Uint64",
                                          "Float",        "Double",
                                          "FloatComplex", "DoubleComplex",
                                          "LongDouble",   "LongDoubleComplex",
                                          "Int128",       "Uint128"};
        return names.at(static_cast<std::size_t>(index));
    }
};

using AllTypes =
    testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                   std::uint32_t, std::int64_t, std::uint64_t, float, double, std::complex<float>,
                   std::complex<double>, long double, std::complex<long double>, Int128, Uint128>;
TYPED_TEST_SUITE(AtomicOperationOn, AllTypes, CaseNames);

}  // namespace

TYPED_TEST(AtomicOperationOn, IsSupportedWhereItMakesSense) {
    using On = AtomicOperationOn<TypeParam>;
    EXPECT_EQ(size_of(On::type), sizeof(TypeParam));
    for (std::uint8_t i = 0; i < atomic_operations; ++i) {
        SCOPED_TRACE(int{i});
        const auto operation = static_cast<AtomicOperation>(i);
        const bool comparing = operation >= SwapIfEqual;
        const bool bitwise = operation == BitOr || operation == BitAnd || operation == BitXor ||
                             operation == SwapBits;
        const bool ordering = operation == Minimum || operation == Maximum ||
                              (operation >= SwapIfLessOrEqual && operation <= SwapIfGreater);
        const bool sensible =
            !(bitwise && (On::is_floating || On::is_complex)) && !(ordering && On::is_complex);
        EXPECT_EQ(supports(AtomicUse::Plain, operation, On::type),
                  sensible && !comparing && operation != Read);
        EXPECT_EQ(supports(AtomicUse::Fetch, operation, On::type), sensible && !comparing);
        EXPECT_EQ(supports(AtomicUse::Compare, operation, On::type), sensible && comparing);
    }
}

TYPED_TEST(AtomicOperationOn, DoesWhatTheManualSaysAtAnyAddress) {
    using On = AtomicOperationOn<TypeParam>;
    using T = TypeParam;
    constexpr std::size_t most = 5;
    for (std::uint8_t i = 0; i < atomic_operations; ++i) {
        const auto operation = static_cast<AtomicOperation>(i);
        if (!On::has(operation)) continue;
        for (std::uint64_t seed = 1; seed <= repeated(200); ++seed) {
            SCOPED_TRACE(testing::Message() << "operation " << int{i} << ", seed " << seed);
            Random random(seed);
            // Memory that is aligned at its beginning; the elements lie somewhere in it.
            alignas(32) std::array<std::byte, (most + 1) * sizeof(T) + 1> target{};
            alignas(32) std::array<std::byte, most * sizeof(T) + 32> operand;
            alignas(32) std::array<std::byte, most * sizeof(T) + 32> compare;
            alignas(32) std::array<std::byte, most * sizeof(T) + 32> result;
            std::memset(result.data(), 0xEE, result.size());
            const std::size_t shift =
                random.one_in(2) ? 0 : random.below(static_cast<std::uint32_t>(sizeof(T)) + 1);
            const std::size_t other_shift = random.below(32);
            const std::size_t count = random.below(most + 1);
            std::array<std::array<Number, 3>, most> numbers;
            for (std::size_t k = 0; k < count; ++k) {
                for (Number& each : numbers[k])
                    each = On::random_number(random);
                const T values[] = {typed<T>(numbers[k][0]), typed<T>(numbers[k][1]),
                                    typed<T>(numbers[k][2])};
                std::memcpy(&target[shift + k * sizeof(T)], &values[0], sizeof(T));
                std::memcpy(&operand[other_shift + k * sizeof(T)], &values[1], sizeof(T));
                std::memcpy(&compare[other_shift + k * sizeof(T)], &values[2], sizeof(T));
            }
            const std::byte guard{0xA5};
            target[shift + count * sizeof(T)] = guard;
            const bool wants_result = random.one_in(2) || operation == Read;
            apply(operation, On::type, &target[shift],
                  operation == Read ? nullptr : &operand[other_shift],
                  operation >= SwapIfEqual ? &compare[other_shift] : nullptr,
                  wants_result ? &result[other_shift] : nullptr, count);
            ASSERT_EQ(target[shift + count * sizeof(T)], guard);
            for (std::size_t k = 0; k < count; ++k) {
                T after;
                std::memcpy(&after, &target[shift + k * sizeof(T)], sizeof(T));
                const T right =
                    typed<T>(expected(operation, numbers[k][0], numbers[k][1], numbers[k][2]));
                ASSERT_TRUE(after == right)
                    << text(after) << " instead of " << text(right) << " from "
                    << text(numbers[k][0]) << text(numbers[k][1]) << text(numbers[k][2]);
                if (!wants_result) continue;
                T before;
                std::memcpy(&before, &result[other_shift + k * sizeof(T)], sizeof(T));
                ASSERT_TRUE(before == typed<T>(numbers[k][0])) << text(before);
            }
            if (!wants_result) {
                for (const std::byte each : result)
                    ASSERT_EQ(each, std::byte{0xEE});
            }
        }
    }
}

TEST(AtomicOperation, IntegersGoRound) {
    const auto after = []<class T>(AtomicOperation operation, T target, T operand) {
        apply(operation, TypeOf<T>::value, &target, &operand, nullptr, nullptr, 1);
        return target;
    };
    EXPECT_EQ(after(Sum, std::int8_t{100}, std::int8_t{100}), std::int8_t{-56});
    EXPECT_EQ(after(Product, std::uint16_t{65535}, std::uint16_t{65535}), std::uint16_t{1});
    EXPECT_EQ(after(Sum, std::numeric_limits<std::int32_t>::max(), std::int32_t{1}),
              std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(after(Sum, std::numeric_limits<std::int64_t>::max(), std::int64_t{1}),
              std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(after(Product, std::numeric_limits<std::int64_t>::max(), std::int64_t{2}), -2);
    EXPECT_EQ(after(Sum, ~std::uint64_t{0}, std::uint64_t{2}), 1U);
    const Int128 wide = Int128{1} << 100;
    EXPECT_TRUE(after(Sum, wide, wide) == Int128{1} << 101);
    EXPECT_TRUE(after(Product, Uint128{1} << 127, Uint128{2}) == 0);
    EXPECT_TRUE(after(Minimum, wide, -wide) == -wide);
    EXPECT_TRUE(after(Maximum, Uint128{3}, ~Uint128{0}) == ~Uint128{0});
}

TEST(AtomicOperation, NothingUnknownIsSupported) {
    for (const AtomicUse use :
         {AtomicUse::Plain, AtomicUse::Fetch, AtomicUse::Compare, static_cast<AtomicUse>(3)})
        for (unsigned operation = 0; operation < 256; ++operation)
            for (unsigned type = 0; type < 256; ++type) {
                if (operation < atomic_operations && type < atomic_types &&
                    use <= AtomicUse::Compare)
                    continue;
                ASSERT_FALSE(supports(use, static_cast<AtomicOperation>(operation),
                                      static_cast<AtomicType>(type)));
            }
    EXPECT_EQ(size_of(static_cast<AtomicType>(16)), 0U);
    EXPECT_EQ(size_of(static_cast<AtomicType>(255)), 0U);
}

TEST(AtomicOperation, AWriteCopiesEveryBit) {
    // A signalling NaN, which arithmetic would change.
    const std::uint32_t bits = 0x7FA00001;
    std::uint32_t target = 0;
    std::uint32_t result = 0;
    apply(Write, AtomicType::Float, &target, &bits, nullptr, nullptr, 1);
    EXPECT_EQ(target, bits);
    apply(Read, AtomicType::Float, &target, nullptr, nullptr, &result, 1);
    EXPECT_EQ(result, bits);
}

namespace {

/// Other threads use the program's own atomics on the same memory meanwhile.
template <class T>
void share(T one) {
    alignas(8) std::atomic<T> counter{};
    const std::uint32_t rounds = repeated(50'000);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
            for (std::uint32_t k = 0; k < rounds; ++k)
                counter.fetch_add(one);
        });
    for (std::uint32_t k = 0; k < rounds; ++k)
        apply(Sum, TypeOf<T>::value, &counter, &one, nullptr, nullptr, 1);
    for (std::thread& each : threads)
        each.join();
    T sum{};
    for (std::uint32_t k = 0; k < 3 * rounds; ++k)
        sum = static_cast<T>(sum + one);
    EXPECT_EQ(counter.load(), sum);
}

}  // namespace

TEST(AtomicOperation, SharesMemoryWithTheAtomicsOfOtherThreads) {
    share<std::uint8_t>(1);
    share<std::uint16_t>(1);
    share<std::int32_t>(1);
    share<std::uint64_t>(1);
    share<float>(1);
    share<double>(1);
}
