// SPDX-License-Identifier: BSD-3-Clause
#include "pattern.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace via::tool {
namespace {

TEST(Pattern, IsFoundIntactAtEveryLength) {
    std::vector<std::byte> buffer(100, std::byte{0xEE});
    for (std::size_t bytes = 0; bytes < 90; ++bytes) {
        fill_pattern(buffer.data(), bytes, 7);
        EXPECT_FALSE(find_wrong_byte(buffer.data(), bytes, 7)) << bytes;
        EXPECT_EQ(buffer[bytes], std::byte{0xEE}) << "wrote past the end";
    }
}

TEST(Pattern, EveryFlippedByteIsFound) {
    constexpr std::size_t bytes = 77;
    std::vector<std::byte> buffer(bytes);
    for (std::size_t place = 0; place < bytes; ++place) {
        fill_pattern(buffer.data(), bytes, 123456789);
        buffer[place] ^= std::byte{0x10};
        EXPECT_EQ(find_wrong_byte(buffer.data(), bytes, 123456789), place);
    }
}

TEST(Pattern, AnotherMessageOrAShiftedOneIsFound) {
    std::vector<std::byte> buffer(4096);
    fill_pattern(buffer.data(), buffer.size(), 5);
    EXPECT_TRUE(find_wrong_byte(buffer.data(), buffer.size(), 6));
    EXPECT_TRUE(find_wrong_byte(buffer.data() + 8, buffer.size() - 8, 5));
    fill_pattern(buffer.data(), 2048, 6);  // torn: half new, half old
    EXPECT_EQ(find_wrong_byte(buffer.data(), buffer.size(), 6), 2048u);
}

}  // namespace
}  // namespace via::tool
