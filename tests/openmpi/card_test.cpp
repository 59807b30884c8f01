// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/card.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace via::openmpi {
namespace {

mvich::HostPort some_name(std::uint8_t host_bytes) {
    mvich::HostPort name;
    name.host_bytes = host_bytes;
    for (std::uint8_t i = 0; i < host_bytes; ++i)
        name.host[i] = static_cast<std::uint8_t>(i + 1);
    name.port = 0xABCD;
    return name;
}

TEST(Card, SaysTheNameOfAnEndpoint) {
    for (const std::uint8_t host_bytes : {std::uint8_t{4}, std::uint8_t{16}}) {
        const auto name = name_on(card_of(some_name(host_bytes)));
        ASSERT_TRUE(name.has_value());
        EXPECT_EQ(*name, some_name(host_bytes));
    }
}

TEST(Card, OfAnotherVersionOrLengthIsNone) {
    Card card = card_of(some_name(4));
    EXPECT_FALSE(name_on(std::span(card).first(card.size() - 1)));
    EXPECT_FALSE(name_on({}));
    const std::vector<std::uint8_t> longer(card.size() + 1, card_version);
    EXPECT_FALSE(name_on(longer));
    card[0] = card_version + 1;
    EXPECT_FALSE(name_on(card));
}

TEST(Card, WithNonsenseOnItIsNone) {
    // Whatever one byte is made of: what is taken says the same again.
    for (std::size_t at = 0; at < std::tuple_size_v<Card>; ++at)
        for (unsigned value = 0; value < 256; ++value) {
            Card card = card_of(some_name(4));
            card[at] = static_cast<std::uint8_t>(value);
            const auto name = name_on(card);
            if (name) {
                EXPECT_EQ(card_of(*name), card);
            }
        }
    Card card = card_of(some_name(4));
    card[1] = 5;
    EXPECT_FALSE(name_on(card));
    card = card_of(some_name(4));
    card[2] = card[3] = 0;
    EXPECT_FALSE(name_on(card)) << "nobody is at port 0";
    card = card_of(some_name(16));
    card[1] = 4;
    EXPECT_FALSE(name_on(card)) << "an address of four bytes has no more";
}

}  // namespace
}  // namespace via::openmpi
