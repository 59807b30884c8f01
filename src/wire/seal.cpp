// SPDX-License-Identifier: BSD-3-Clause
#include "wire/seal.hpp"

#include <sodium.h>

#include <cctype>
#include <cstdlib>

namespace via::wire {
namespace {

static_assert(std::tuple_size_v<SealNonce> == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
static_assert(std::tuple_size_v<Key> == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
static_assert(seal_tag_bytes == crypto_aead_xchacha20poly1305_ietf_ABYTES);

/// The library chooses its code for this processor once.
void prepare() {
    static const int prepared = sodium_init();
    if (prepared < 0) std::abort();  // it has no source of random numbers: nothing would be safe
}

ByteView bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

class Hash {
  public:
    Hash(ByteView key, std::size_t bytes) : bytes_(bytes) {
        prepare();
        crypto_generichash_init(&state_, key.empty() ? nullptr : key.data(), key.size(), bytes);
    }
    void add(ByteView bytes) { crypto_generichash_update(&state_, bytes.data(), bytes.size()); }
    template <std::size_t n>
    [[nodiscard]] std::array<std::uint8_t, n> result() {
        std::array<std::uint8_t, n> value{};
        crypto_generichash_final(&state_, value.data(), bytes_);
        return value;
    }

  private:
    crypto_generichash_state state_;
    std::size_t bytes_;
};

std::string_view trimmed(std::string_view text) {
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!text.empty() && is_space(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_space(text.back()))
        text.remove_suffix(1);
    return text;
}

}  // namespace

Key cluster_key(std::string_view secret) {
    const std::string_view text = trimmed(secret);
    Hash hash({}, std::tuple_size_v<Key>);
    hash.add(bytes_of("viaduct cluster key 1"));
    Key raw{};
    std::size_t length = 0;
    const bool hexadecimal = text.size() == 2 * raw.size() &&
                             sodium_hex2bin(raw.data(), raw.size(), text.data(), text.size(),
                                            nullptr, &length, nullptr) == 0 &&
                             length == raw.size();
    hash.add(hexadecimal ? ByteView(raw) : bytes_of(text));
    return hash.result<std::tuple_size_v<Key>>();
}

KeyId key_id(const Key& key) {
    // The shortest hash that there is has 16 bytes.
    const auto hash = keyed_hash(key, bytes_of("viaduct key id"));
    KeyId id{};
    std::copy_n(hash.begin(), id.size(), id.begin());
    return id;
}

std::string readable(const KeyId& id) {
    if (id == key_id(cluster_key(""))) return "no key";
    constexpr char digits[] = "0123456789abcdef";
    std::string text = "key ";
    for (std::size_t i = 0; i < 4; ++i) {
        text += digits[id[i] >> 4];
        text += digits[id[i] & 15];
    }
    return text;
}

Key derive_key(const Key& key, std::string_view label, std::initializer_list<ByteView> parts) {
    Hash hash(key, std::tuple_size_v<Key>);
    for (const ByteView part : parts)
        hash.add(part);
    hash.add(bytes_of(label));
    return hash.result<std::tuple_size_v<Key>>();
}

Mac keyed_hash(const Key& key, ByteView bytes) {
    Hash hash(key, std::tuple_size_v<Mac>);
    hash.add(bytes);
    return hash.result<std::tuple_size_v<Mac>>();
}

bool same(const Mac& one, const Mac& other) noexcept {
    return sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

Bytes seal(const Key& key, const SealNonce& nonce, ByteView header, ByteView body) {
    prepare();
    Bytes sealed(body.size() + seal_tag_bytes);
    crypto_aead_xchacha20poly1305_ietf_encrypt(sealed.data(), nullptr, body.data(), body.size(),
                                               header.data(), header.size(), nullptr, nonce.data(),
                                               key.data());
    return sealed;
}

std::optional<Bytes> unseal(const Key& key, const SealNonce& nonce, ByteView header,
                            ByteView sealed) {
    prepare();
    if (sealed.size() < seal_tag_bytes) return {};
    Bytes body(sealed.size() - seal_tag_bytes);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(body.data(), nullptr, nullptr, sealed.data(),
                                                   sealed.size(), header.data(), header.size(),
                                                   nonce.data(), key.data()) != 0)
        return {};
    return body;
}

}  // namespace via::wire
