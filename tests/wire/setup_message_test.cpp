// SPDX-License-Identifier: BSD-3-Clause
#include "wire/setup_message.hpp"

#include <gtest/gtest.h>

#include <random>

namespace via::wire {
namespace {

const Key key = cluster_key("a");
const KeyId id = key_id(key);
const SetupNonce nonce{1, 2, 3};
const Cookie cookie{5, {7, 8}};

TEST(SetupMessage, EveryKindHasItsBytes) {
    const Bytes hello = encode_hello(id, nonce);
    EXPECT_EQ(hello.size(), 96U);
    EXPECT_EQ(hello[0], 'V');
    EXPECT_EQ(hello[3], 'S');
    EXPECT_EQ(hello[4], 2);   // version
    EXPECT_EQ(hello[5], 1);   // kind
    EXPECT_EQ(hello[16], 1);  // nonce
    EXPECT_EQ(hello[18], 3);
    EXPECT_TRUE(std::equal(id.begin(), id.end(), hello.begin() + 8));

    const Bytes challenge = encode_challenge(id, nonce, cookie);
    EXPECT_EQ(challenge.size(), 56U);
    EXPECT_EQ(challenge[39], 5);  // slot
    EXPECT_EQ(challenge[40], 7);  // MAC

    const Bytes refusal = encode_refusal(id, nonce, RefusalReason::WrongVersion);
    EXPECT_EQ(refusal.size(), 40U);
    EXPECT_EQ(refusal[32], 2);

    const Bytes request =
        encode_sealed(SetupKind::Request, key, {nonce, cookie, 0x0102}, {4}, Bytes{1, 2, 3});
    EXPECT_EQ(request.size(), 88U + 3 + 16);
    EXPECT_EQ(request[5], 4);
    EXPECT_EQ(request[62], 1);  // request number
    EXPECT_EQ(request[63], 2);
    EXPECT_EQ(request[64], 4);  // nonce of the seal
}

TEST(SetupMessage, WhatIsEncodedIsDecoded) {
    auto message = decode_setup(encode_challenge(id, nonce, cookie));
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, SetupKind::Challenge);
    EXPECT_EQ(message->key, id);
    EXPECT_EQ(message->nonce, nonce);
    EXPECT_EQ(message->cookie, cookie);

    const Bytes body{1, 2, 3};
    for (const SetupKind kind : {SetupKind::Request, SetupKind::Outcome, SetupKind::Confirm,
                                 SetupKind::Confirmed, SetupKind::Cancel}) {
        const Bytes datagram = encode_sealed(kind, key, {nonce, cookie, 77}, {4}, body);
        message = decode_setup(datagram);
        ASSERT_TRUE(message);
        EXPECT_EQ(message->kind, kind);
        EXPECT_EQ(message->request, 77U);
        EXPECT_EQ(open_sealed(key, *message), body);
        EXPECT_FALSE(open_sealed(cluster_key("b"), *message));
        // Nobody's words come back as another kind of them.
        Bytes turned = datagram;
        turned[5] = static_cast<std::uint8_t>(kind == SetupKind::Outcome ? SetupKind::Request
                                                                         : SetupKind::Outcome);
        message = decode_setup(turned);
        ASSERT_TRUE(message);
        EXPECT_FALSE(open_sealed(key, *message));
    }
}

TEST(SetupMessage, LengthsMustBeRight) {
    const Bytes sealed = encode_sealed(SetupKind::Confirm, key, {nonce, cookie, 1}, {4}, {});
    for (const Bytes& whole : {encode_hello(id, nonce), encode_challenge(id, nonce, cookie),
                               encode_refusal(id, nonce, RefusalReason::WrongKey), sealed}) {
        EXPECT_TRUE(decode_setup(whole));
        for (std::size_t length = 0; length < whole.size(); ++length)
            EXPECT_FALSE(decode_setup(ByteView(whole).first(length))) << length;
        if (is_sealed(static_cast<SetupKind>(whole[5]))) continue;
        Bytes longer = whole;
        longer.push_back(0);
        EXPECT_FALSE(decode_setup(longer));
    }
    EXPECT_FALSE(decode_setup(encode_sealed(SetupKind::Request, key, {nonce, cookie, 1}, {4},
                                            Bytes(max_sealed_body_bytes + 1))));
    EXPECT_TRUE(decode_setup(encode_sealed(SetupKind::Request, key, {nonce, cookie, 1}, {4},
                                           Bytes(max_sealed_body_bytes))));
}

TEST(SetupMessage, OtherVersionsAreKnownByHelloAndRefusal) {
    Bytes hello = encode_hello(id, nonce);
    hello[4] = 9;
    hello.resize(50, 1);  // whatever that version may have there
    auto message = decode_setup(hello);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->version, 9);
    hello.resize(refusal_bytes - 1);  // the answer would be longer
    EXPECT_FALSE(decode_setup(hello));
    Bytes refusal = encode_refusal(id, nonce, RefusalReason::WrongVersion);
    refusal[4] = 9;
    message = decode_setup(refusal);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->version, 9);
    EXPECT_EQ(message->reason, RefusalReason::WrongVersion);
    Bytes challenge = encode_challenge(id, nonce, cookie);
    challenge[4] = 9;
    EXPECT_FALSE(decode_setup(challenge));
}

TEST(SetupMessage, RandomBytesAreNoMessages) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20'000; ++i) {
        Bytes datagram(random() % 300);
        for (std::uint8_t& byte : datagram)
            byte = static_cast<std::uint8_t>(random());
        if (datagram.size() > 8 && i % 2 == 0) {
            const Bytes start{'V', 'I', 'A', 'S', 1, static_cast<std::uint8_t>(random() % 10),
                              0,   0};
            std::copy(start.begin(), start.end(), datagram.begin());
        }
        if (const auto message = decode_setup(datagram); message && is_sealed(message->kind)) {
            EXPECT_FALSE(open_sealed(key, *message));
        }
    }
}

}  // namespace
}  // namespace via::wire
