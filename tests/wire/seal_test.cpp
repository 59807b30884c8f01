// SPDX-License-Identifier: BSD-3-Clause
#include "wire/seal.hpp"

#include <gtest/gtest.h>

namespace via::wire {
namespace {

TEST(Seal, WhatIsSealedIsOpenedByWhoHasTheKey) {
    const Key key = cluster_key("a");
    const SealNonce nonce{1, 2, 3};
    const Bytes header{9, 9};
    const Bytes body{1, 2, 3, 4, 5};
    const Bytes sealed = seal(key, nonce, header, body);
    EXPECT_EQ(sealed.size(), body.size() + seal_tag_bytes);
    EXPECT_FALSE(std::equal(body.begin(), body.end(), sealed.begin()));
    EXPECT_EQ(unseal(key, nonce, header, sealed), body);
    EXPECT_EQ(unseal(key, nonce, header, seal(key, nonce, header, {})), Bytes{});

    EXPECT_FALSE(unseal(cluster_key("b"), nonce, header, sealed));
    EXPECT_FALSE(unseal(key, SealNonce{1, 2, 4}, header, sealed));
    EXPECT_FALSE(unseal(key, nonce, Bytes{9, 8}, sealed));
    EXPECT_FALSE(unseal(key, nonce, header, ByteView(sealed).first(sealed.size() - 1)));
    EXPECT_FALSE(unseal(key, nonce, header, ByteView(sealed).first(3)));
    for (std::size_t i = 0; i < sealed.size(); ++i) {
        Bytes changed = sealed;
        changed[i] ^= 0x80;
        EXPECT_FALSE(unseal(key, nonce, header, changed)) << i;
    }
}

TEST(Seal, AKeyIsTextOrHexadecimalDigits) {
    const std::string digits(64, 'a');
    EXPECT_EQ(cluster_key(digits), cluster_key(" " + std::string(64, 'A') + "\n"));
    EXPECT_NE(cluster_key(digits), cluster_key(std::string(63, 'a')));
    EXPECT_EQ(cluster_key("a word"), cluster_key("a word\n"));
    EXPECT_NE(cluster_key("a word"), cluster_key("a  word"));
    EXPECT_NE(cluster_key("a"), cluster_key(""));
}

TEST(Seal, KeysAreNamedWithoutBeingTold) {
    EXPECT_EQ(readable(key_id(cluster_key(""))), "no key");
    EXPECT_EQ(key_id(cluster_key("a")), key_id(cluster_key("a")));
    EXPECT_NE(key_id(cluster_key("a")), key_id(cluster_key("b")));
    EXPECT_EQ(readable(key_id(cluster_key("a"))).substr(0, 4), "key ");
    EXPECT_EQ(readable(key_id(cluster_key("a"))).size(), 12U);
}

TEST(Seal, KeysAreMadeForOnePurpose) {
    const Key key = cluster_key("a");
    const Bytes part{1, 2};
    const Bytes other{1, 3};
    EXPECT_EQ(derive_key(key, "x", {part}), derive_key(key, "x", {part}));
    EXPECT_NE(derive_key(key, "x", {part}), derive_key(key, "y", {part}));
    EXPECT_NE(derive_key(key, "x", {part}), derive_key(key, "x", {other}));
    EXPECT_NE(derive_key(key, "x", {part}), derive_key(cluster_key("b"), "x", {part}));
    EXPECT_TRUE(same(keyed_hash(key, part), keyed_hash(key, part)));
    EXPECT_FALSE(same(keyed_hash(key, part), keyed_hash(key, other)));
}

}  // namespace
}  // namespace via::wire
