// SPDX-License-Identifier: BSD-3-Clause
// Keys, and how messages are sealed with them: BLAKE2b makes keys out of keys, XChaCha20-Poly1305
// hides and authenticates. Everything is a pure function; random numbers are the caller's.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "wire/byte_reader.hpp"

namespace via::wire {

using Key = std::array<std::uint8_t, 32>;
/// Tells keys apart without telling anything about them.
using KeyId = std::array<std::uint8_t, 8>;
using SealNonce = std::array<std::uint8_t, 24>;
using Mac = std::array<std::uint8_t, 16>;
inline constexpr std::size_t seal_tag_bytes = 16;

/// The key of a cluster from what its hosts share: 64 hexadecimal digits or any text, without the
/// white space around it. An empty secret is that of an open cluster, which everybody knows.
[[nodiscard]] Key cluster_key(std::string_view secret);
[[nodiscard]] KeyId key_id(const Key& key);
/// "no key" or "key 1a2b3c4d…", for sentences.
[[nodiscard]] std::string readable(const KeyId& id);

/// Another key, for what the label says and the parts in order; parts must have fixed lengths.
[[nodiscard]] Key derive_key(const Key& key, std::string_view label,
                             std::initializer_list<ByteView> parts);
/// Proves that whoever made it has the key.
[[nodiscard]] Mac keyed_hash(const Key& key, ByteView bytes);
/// In constant time.
[[nodiscard]] bool same(const Mac& one, const Mac& other) noexcept;

/// The body, unreadable, and a tag over it and the header; a nonce must not serve twice.
[[nodiscard]] Bytes seal(const Key& key, const SealNonce& nonce, ByteView header, ByteView body);
/// Empty: it was not sealed with this key, nonce and header.
[[nodiscard]] std::optional<Bytes> unseal(const Key& key, const SealNonce& nonce, ByteView header,
                                          ByteView sealed);

}  // namespace via::wire
