// SPDX-License-Identifier: BSD-3-Clause
#include "lab/frame_damage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace via::lab {
namespace {

using Frame = std::vector<std::uint8_t>;

/// The checksum of RFC 1071 over what a receiver sums: 0 if the packet is good.
std::uint16_t receiver_sum(const Frame& frame, std::size_t pseudo_begin, std::size_t pseudo_end,
                           std::uint8_t protocol, std::size_t header, std::size_t end) {
    std::uint32_t sum = protocol + static_cast<std::uint32_t>(end - header);
    const auto add = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; i += 2)
            sum += static_cast<std::uint32_t>(frame[i] << 8 | (i + 1 < to ? frame[i + 1] : 0));
    };
    add(pseudo_begin, pseudo_end);
    add(header, end);
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

void seal(Frame& frame, std::size_t place, std::uint16_t sum) {
    frame[place] = static_cast<std::uint8_t>(sum >> 8);
    frame[place + 1] = static_cast<std::uint8_t>(sum);
}

struct Made {
    Frame frame;
    std::size_t pseudo_begin, pseudo_end, header, data, end;
    std::uint8_t protocol;

    [[nodiscard]] std::uint16_t sum() const {
        return receiver_sum(frame, pseudo_begin, pseudo_end, protocol, header, end);
    }
};

/// A frame of UDP (17) or TCP (6) over IPv4 or IPv6 with a good checksum, and 4 bytes of padding.
Made make_frame(bool ipv6, std::uint8_t protocol, std::size_t bytes, std::mt19937_64& random) {
    const std::size_t ip = 14;
    Made made{};
    made.protocol = protocol;
    made.header = ip + (ipv6 ? 40 : 20);
    made.data = made.header + (protocol == 17 ? 8 : 24);
    made.end = made.data + bytes;
    made.pseudo_begin = ip + (ipv6 ? 8 : 12);
    made.pseudo_end = made.header;
    made.frame.resize(made.end + 4);
    for (std::uint8_t& byte : made.frame)
        byte = static_cast<std::uint8_t>(random());
    seal(made.frame, 12, ipv6 ? 0x86dd : 0x0800);
    if (ipv6) {
        made.frame[ip] = 0x60;
        seal(made.frame, ip + 4, static_cast<std::uint16_t>(made.end - made.header));
        made.frame[ip + 6] = protocol;
    } else {
        made.frame[ip] = 0x45;
        seal(made.frame, ip + 2, static_cast<std::uint16_t>(made.end - ip));
        seal(made.frame, ip + 6, 0x4000);
        made.frame[ip + 9] = protocol;
    }
    if (protocol == 6) made.frame[made.header + 12] = 6 << 4;
    const std::size_t checksum = made.header + (protocol == 17 ? 6 : 16);
    seal(made.frame, checksum, 0);
    const std::uint16_t sum = made.sum();
    seal(made.frame, checksum, sum == 0 ? 0xffff : sum);
    return made;
}

TEST(FrameDamage, TheDataChangesAndTheChecksumStillFits) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 2000; ++round)
        for (const bool ipv6 : {false, true})
            for (const std::uint8_t protocol : {std::uint8_t{17}, std::uint8_t{6}}) {
                Made made = make_frame(ipv6, protocol, 1 + random() % 40, random);
                ASSERT_EQ(made.sum(), 0);
                const Frame before = made.frame;
                ASSERT_TRUE(damage_frame(made.frame, random));
                EXPECT_EQ(made.sum(), 0) << "round " << round;
                std::size_t changed = 0;
                for (std::size_t i = made.data; i < made.end; ++i)
                    changed += made.frame[i] != before[i];
                EXPECT_EQ(changed, 1u);
                EXPECT_TRUE(
                    std::equal(before.begin(), before.begin() + 14 + 20, made.frame.begin()));
                EXPECT_TRUE(std::equal(before.end() - 4, before.end(), made.frame.end() - 4));
            }
}

TEST(FrameDamage, APacketWithoutAChecksumGetsNone) {
    std::mt19937_64 random(2);
    Made made = make_frame(false, 17, 100, random);
    seal(made.frame, made.header + 6, 0);
    ASSERT_TRUE(damage_frame(made.frame, random));
    EXPECT_EQ(made.frame[made.header + 6], 0);
    EXPECT_EQ(made.frame[made.header + 7], 0);
}

TEST(FrameDamage, OtherFramesChangeBehindTheirHeader) {
    std::mt19937_64 random(3);
    Frame frame(60, 0x11);
    seal(frame, 12, 0x88b5);
    const Frame before = frame;
    ASSERT_TRUE(damage_frame(frame, random));
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 14, frame.begin()));
    EXPECT_NE(frame, before);
}

TEST(FrameDamage, WhatHasNothingToDamageIsLeftAlone) {
    std::mt19937_64 random(4);
    Made empty = make_frame(false, 17, 0, random);
    EXPECT_FALSE(damage_frame(empty.frame, random));
    for (std::size_t size = 0; size <= 14; ++size) {
        Frame frame(size, 0x08);
        EXPECT_FALSE(damage_frame(frame, random));
    }
}

TEST(FrameDamage, AnyBytesAreSurvived) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 20'000; ++round) {
        Frame frame(random() % 80);
        for (std::uint8_t& byte : frame)
            byte = static_cast<std::uint8_t>(random());
        if (frame.size() >= 16) {
            seal(frame, 12, random() % 2 == 0 ? 0x0800 : 0x86dd);
            if (random() % 2 == 0) frame[14] = 0x45;
            if (random() % 2 == 0 && frame.size() > 18) seal(frame, 16, 40);
        }
        const std::size_t size = frame.size();
        damage_frame(frame, random);
        EXPECT_EQ(frame.size(), size);
    }
}

}  // namespace
}  // namespace via::lab
