// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/connection_word.hpp"

#include <gtest/gtest.h>

using via::ofi::ConnectionWord;

TEST(ConnectionWord, ComesBackAsItWas) {
    const std::vector<std::byte> data(256, std::byte{7});
    const ConnectionWord word{ConnectionWord::Kind::Accept, 0x0102030405060708, data};
    const std::vector<std::byte> bytes = word.encode();
    const auto back = ConnectionWord::decode(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->kind, word.kind);
    EXPECT_EQ(back->token, word.token);
    EXPECT_EQ(std::vector<std::byte>(back->data.begin(), back->data.end()), data);
}

TEST(ConnectionWord, WhatIsNoneIsRefused) {
    EXPECT_FALSE(ConnectionWord::decode({}));
    std::vector<std::byte> bytes = ConnectionWord{}.encode();
    EXPECT_TRUE(ConnectionWord::decode(bytes));
    bytes[0] = std::byte{0};
    EXPECT_FALSE(ConnectionWord::decode(bytes)) << "no such kind";
    bytes[0] = std::byte{5};
    EXPECT_FALSE(ConnectionWord::decode(bytes));
    bytes[0] = std::byte{1};
    bytes.resize(8);
    EXPECT_FALSE(ConnectionWord::decode(bytes)) << "too short";
    bytes.resize(9 + 257);
    EXPECT_FALSE(ConnectionWord::decode(bytes)) << "too long";
}
