// SPDX-License-Identifier: BSD-3-Clause
#include "wire/crc32c.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using namespace via::wire;

namespace {

/// Bit by bit, as the polynomial is defined.
std::uint32_t reference(std::uint32_t seed, const unsigned char* data, std::size_t bytes) {
    std::uint32_t value = ~seed;
    for (std::size_t i = 0; i < bytes; ++i) {
        value ^= data[i];
        for (int bit = 0; bit < 8; ++bit)
            value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    }
    return ~value;
}

class Crc32c : public testing::TestWithParam<Crc32cWay> {
  protected:
    static std::vector<unsigned char> random_bytes(std::size_t count) {
        std::mt19937 random(20261115);
        std::vector<unsigned char> bytes(count);
        for (auto& byte : bytes)
            byte = static_cast<unsigned char>(random());
        return bytes;
    }
    static std::uint32_t check(std::uint32_t seed, const void* data, std::size_t bytes) {
        return GetParam().check(seed, data, bytes);
    }
};

TEST_P(Crc32c, GivesTheKnownValues) {
    // RFC 3720, B.4, and the check value of the catalogues.
    EXPECT_EQ(check(0, "123456789", 9), 0xE3069283U);
    std::vector<unsigned char> bytes(32, 0x00);
    EXPECT_EQ(check(0, bytes.data(), 32), 0x8A9136AAU);
    std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0xFF));
    EXPECT_EQ(check(0, bytes.data(), 32), 0x62A8AB43U);
    for (unsigned i = 0; i < 32; ++i)
        bytes[i] = static_cast<unsigned char>(i);
    EXPECT_EQ(check(0, bytes.data(), 32), 0x46DD794EU);
    std::reverse(bytes.begin(), bytes.end());
    EXPECT_EQ(check(0, bytes.data(), 32), 0x113FDB5CU);
    const unsigned char command[48] = {0x01, 0xC0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                       0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00,
                                       0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00,
                                       0x00, 0x18, 0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                       0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    EXPECT_EQ(check(0, command, sizeof command), 0xD9963A56U);
}

TEST_P(Crc32c, EveryLengthAndAlignmentIsRight) {
    const auto bytes = random_bytes(700);
    const std::uint32_t seed = 0x5EEDF00DU;
    for (std::size_t alignment = 0; alignment < 17; ++alignment)
        for (std::size_t length = 0; length <= 600; ++length) {
            const std::uint32_t expected = reference(seed, bytes.data() + alignment, length);
            ASSERT_EQ(check(seed, bytes.data() + alignment, length), expected)
                << "length " << length << ", alignment " << alignment;
        }
}

TEST_P(Crc32c, LongDataIsRight) {
    const auto bytes = random_bytes(70000);
    for (const std::size_t length : {1400U, 1472U, 4096U, 8192U, 8972U, 65507U, 70000U}) {
        const std::uint32_t expected = reference(7, bytes.data(), length);
        EXPECT_EQ(check(7, bytes.data(), length), expected) << length;
    }
}

// The fast ways go in rounds of 128 to 448 bytes and in pieces of at most 64 rounds, and treat what
// is over in several ways: so every length up to a full packet, and those around the ends of
// pieces.
TEST_P(Crc32c, EveryEndOfARoundAndOfAPieceIsRight) {
    const std::uint32_t seed = 0xC0FFEE01U;
    const std::size_t alignment = 3;
    const std::size_t longest = 3 * 64 * 448 + 700;
    const auto bytes = random_bytes(alignment + longest);
    // What the reference gives for each length, in one pass.
    std::vector<std::uint32_t> expected(longest + 1, seed);
    for (std::size_t length = 1; length <= longest; ++length)
        expected[length] =
            reference(expected[length - 1], bytes.data() + alignment + length - 1, 1);

    const auto try_length = [&](std::size_t length) {
        ASSERT_EQ(check(seed, bytes.data() + alignment, length), expected[length]) << length;
    };
    for (std::size_t length = 0; length <= 1600; ++length)
        ASSERT_NO_FATAL_FAILURE(try_length(length));
    for (const std::size_t piece : {64U * 192, 64U * 272, 64U * 448})
        for (std::size_t pieces = 1; pieces <= 3; ++pieces)
            for (std::size_t length = pieces * piece - 200; length <= pieces * piece + 400;
                 ++length)
                ASSERT_NO_FATAL_FAILURE(try_length(length));
}

// Long data is taken by lines of the cache, so it matters where in a line it begins and ends.
TEST_P(Crc32c, LongDataMayBeginAndEndAnywhereInALine) {
    constexpr std::size_t line = 64;
    constexpr std::size_t shortest = 8192 - line;
    alignas(line) static unsigned char bytes[line + shortest + 3 * line];
    const auto random = random_bytes(sizeof bytes);
    std::copy(random.begin(), random.end(), bytes);
    for (std::size_t begin = 0; begin < line; ++begin) {
        std::uint32_t expected = reference(11, bytes + begin, shortest);
        for (std::size_t length = shortest; length <= shortest + 3 * line; ++length) {
            if (length > shortest) expected = reference(expected, bytes + begin + length - 1, 1);
            ASSERT_EQ(check(11, bytes + begin, length), expected) << begin << ", " << length;
        }
    }
}

TEST_P(Crc32c, ContinuesWhereItStopped) {
    const auto bytes = random_bytes(600);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        const std::uint32_t first = check(99, bytes.data(), cut);
        ASSERT_EQ(check(first, bytes.data() + cut, bytes.size() - cut),
                  reference(99, bytes.data(), bytes.size()))
            << cut;
    }
}

TEST_P(Crc32c, SeesEveryChangedBitAndAnotherSeed) {
    auto bytes = random_bytes(333);
    const std::uint32_t right = check(1, bytes.data(), bytes.size());
    EXPECT_NE(check(2, bytes.data(), bytes.size()), right);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << (bit % 8)));
        ASSERT_NE(check(1, bytes.data(), bytes.size()), right) << bit;
        bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << (bit % 8)));
    }
}

// Not a byte more than asked for, of every alignment and length.
TEST_P(Crc32c, CopiesWhatItChecks) {
    if (GetParam().copy == nullptr) GTEST_SKIP() << "this way copies nothing";
    const auto bytes = random_bytes(70000);
    const unsigned char untouched = 0xA5;
    const auto try_length = [&](std::size_t length, std::size_t from, std::size_t to) {
        std::vector<unsigned char> copy(to + length + 80, untouched);
        ASSERT_EQ(GetParam().copy(5, copy.data() + to, bytes.data() + from, length),
                  check(5, bytes.data() + from, length))
            << length;
        const auto begin = copy.begin() + static_cast<std::ptrdiff_t>(to);
        const auto end = begin + static_cast<std::ptrdiff_t>(length);
        ASSERT_TRUE(std::equal(begin, end, bytes.begin() + static_cast<std::ptrdiff_t>(from)))
            << length;
        const auto is_untouched = [&](unsigned char byte) { return byte == untouched; };
        ASSERT_TRUE(std::all_of(copy.begin(), begin, is_untouched)) << length;
        ASSERT_TRUE(std::all_of(end, copy.end(), is_untouched)) << length;
    };
    for (std::size_t length = 0; length <= 1600; ++length)
        ASSERT_NO_FATAL_FAILURE(try_length(length, length % 67, length % 71));
    for (std::size_t alignment = 0; alignment < 64; ++alignment)
        ASSERT_NO_FATAL_FAILURE(try_length(1436, alignment, 63 - alignment));
    // Long data goes by lines of the cache.
    for (std::size_t to = 0; to < 64; ++to)
        for (const std::size_t length : {8191U, 8192U, 8192U + 77, 65507U})
            ASSERT_NO_FATAL_FAILURE(try_length(length, to * 7 % 64, to));
}

INSTANTIATE_TEST_SUITE_P(, Crc32c, testing::ValuesIn(crc32c_ways()), [](const auto& test) {
    std::string name = test.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

// And what the others call takes one of them.
INSTANTIATE_TEST_SUITE_P(Chosen, Crc32c, testing::Values(Crc32cWay{"chosen", crc32c, crc32c_copy}),
                         [](const auto& test) { return test.param.name; });

TEST(Crc32cWays, AreExactlyThoseOfWhichTheKernelSaysTheProcessorHasThem) {
    struct Needed {
        std::string way;
        std::vector<std::string> words;
    };
#if defined(__aarch64__)
    const std::vector<Needed> all = {{"arm-sha3", {" crc32", " pmull", " sha3"}},
                                     {"arm", {" crc32", " pmull"}}};
#elif defined(__x86_64__)
    const std::vector<Needed> all = {
        {"x86-wide",
         {" sse4_2", " pclmulqdq", " avx512f", " avx512bw", " avx512vl", " vpclmulqdq"}},
        {"x86-avx2", {" sse4_2", " pclmulqdq", " avx2", " vpclmulqdq"}},
        {"x86", {" sse4_2", " pclmulqdq"}}};
#else
    const std::vector<Needed> all;
#endif
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line))
        if (line.starts_with("Features") || line.starts_with("flags")) break;
    if (!all.empty() && !file) GTEST_SKIP() << "/proc/cpuinfo does not tell what the processor has";
    std::vector<std::string> expected;
    for (const Needed& needed : all)
        if (std::all_of(needed.words.begin(), needed.words.end(), [&](const std::string& word) {
                return (line + " ").find(word + " ") != std::string::npos;
            }))
            expected.push_back(needed.way);
    expected.emplace_back("portable");
    std::vector<std::string> ways;
    for (const Crc32cWay& way : crc32c_ways())
        ways.emplace_back(way.name);
    EXPECT_EQ(ways, expected) << line;
}

}  // namespace
