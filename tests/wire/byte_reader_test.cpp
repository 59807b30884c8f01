// SPDX-License-Identifier: BSD-3-Clause
#include "wire/byte_reader.hpp"

#include <gtest/gtest.h>

namespace via::wire {
namespace {

TEST(ByteReader, NumbersLieHighByteFirst) {
    ByteWriter writer;
    writer.number(std::uint8_t{1});
    writer.number(std::uint16_t{0x0203});
    writer.number(std::uint32_t{0x04050607});
    writer.number(std::uint64_t{0x08090a0b0c0d0e0f});
    writer.zeros(2);
    const Bytes expected{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0};
    EXPECT_EQ(writer.written(), expected);
    ByteReader reader(expected);
    EXPECT_EQ(reader.number<std::uint8_t>(), 1);
    EXPECT_EQ(reader.number<std::uint16_t>(), 0x0203);
    EXPECT_EQ(reader.number<std::uint32_t>(), 0x04050607U);
    EXPECT_EQ(reader.number<std::uint64_t>(), 0x08090a0b0c0d0e0fU);
    EXPECT_FALSE(reader.finished());
    EXPECT_TRUE(reader.zeros(2));
    EXPECT_TRUE(reader.finished());
}

TEST(ByteReader, WhatIsNotThereIsZeroAndSaysSo) {
    const Bytes bytes{1, 2, 3};
    ByteReader reader(bytes);
    EXPECT_EQ(reader.number<std::uint32_t>(), 0U);
    EXPECT_FALSE(reader.ok());
    // Also what would have fitted before.
    EXPECT_EQ(reader.number<std::uint8_t>(), 0);
    EXPECT_TRUE(reader.take(0).empty());
    EXPECT_FALSE(reader.zeros(0));
    EXPECT_FALSE(reader.finished());
    ByteReader other(bytes);
    EXPECT_EQ(other.array<4>(), (std::array<std::uint8_t, 4>{}));
    EXPECT_FALSE(other.ok());
    ByteReader zeros(bytes);
    EXPECT_FALSE(zeros.zeros(1));
}

}  // namespace
}  // namespace via::wire
