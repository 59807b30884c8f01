// SPDX-License-Identifier: BSD-3-Clause
#include "wire/setup_message.hpp"

namespace via::wire {
namespace {

constexpr std::array<std::uint8_t, 4> magic{'V', 'I', 'A', 'S'};

void write_header(ByteWriter& writer, SetupKind kind, const KeyId& key, const SetupNonce& nonce) {
    writer.bytes(magic);
    writer.number(setup_version);
    writer.number(static_cast<std::uint8_t>(kind));
    writer.zeros(2);
    writer.bytes(key);
    writer.bytes(nonce);
}

void write_cookie(ByteWriter& writer, const Cookie& cookie) {
    writer.number(cookie.slot);
    writer.bytes(cookie.mac);
}

Cookie read_cookie(ByteReader& reader) {
    Cookie cookie;
    cookie.slot = reader.number<std::uint64_t>();
    cookie.mac = reader.array<std::tuple_size_v<Mac>>();
    return cookie;
}

/// One key for each direction, so that nobody's words come back to him as another's.
Key exchange_key(const Key& cluster, SetupKind kind, const SetupNonce& nonce,
                 const Cookie& cookie) {
    const bool answer = kind == SetupKind::Outcome || kind == SetupKind::Confirmed;
    ByteWriter material;
    material.bytes(nonce);
    write_cookie(material, cookie);
    return derive_key(cluster, answer ? "viaduct set-up answer" : "viaduct set-up question",
                      {material.written()});
}

}  // namespace

std::optional<SetupMessage> decode_setup(ByteView datagram) {
    ByteReader reader(datagram);
    SetupMessage message;
    if (reader.array<magic.size()>() != magic) return {};
    message.version = reader.number<std::uint8_t>();
    const auto kind = reader.number<std::uint8_t>();
    message.kind = static_cast<SetupKind>(kind);
    if (kind < static_cast<std::uint8_t>(SetupKind::Hello) ||
        kind > static_cast<std::uint8_t>(SetupKind::Cancel))
        return {};
    const bool zeros = reader.zeros(2);
    message.key = reader.array<std::tuple_size_v<KeyId>>();
    message.nonce = reader.array<std::tuple_size_v<SetupNonce>>();
    if (!reader.ok()) return {};
    if (message.kind == SetupKind::Refusal) {
        const auto reason = reader.number<std::uint8_t>();
        message.reason = static_cast<RefusalReason>(reason);
        if (!reader.zeros(7) || !reader.finished() || reason < 1 || reason > 2) return {};
        return message;
    }
    if (message.version != setup_version) {
        // It will be refused, with no more bytes than it has.
        if (message.kind != SetupKind::Hello || datagram.size() < refusal_bytes) return {};
        return message;
    }
    if (!zeros) return {};
    if (message.kind == SetupKind::Hello) {
        if (!reader.zeros(hello_bytes - setup_header_bytes) || !reader.finished()) return {};
        return message;
    }
    message.cookie = read_cookie(reader);
    if (message.kind == SetupKind::Challenge) {
        if (!reader.finished()) return {};
        return message;
    }
    message.request = reader.number<std::uint64_t>();
    message.seal_nonce = reader.array<std::tuple_size_v<SealNonce>>();
    message.sealed = reader.rest();
    if (!reader.ok() || message.sealed.size() < seal_tag_bytes || datagram.size() > max_setup_bytes)
        return {};
    message.header = datagram.first(sealed_header_bytes);
    return message;
}

Bytes encode_hello(const KeyId& key, const SetupNonce& nonce) {
    ByteWriter writer;
    write_header(writer, SetupKind::Hello, key, nonce);
    writer.zeros(hello_bytes - setup_header_bytes);
    return std::move(writer).written();
}

Bytes encode_challenge(const KeyId& key, const SetupNonce& nonce, const Cookie& cookie) {
    ByteWriter writer;
    write_header(writer, SetupKind::Challenge, key, nonce);
    write_cookie(writer, cookie);
    return std::move(writer).written();
}

Bytes encode_refusal(const KeyId& key, const SetupNonce& nonce, RefusalReason reason) {
    ByteWriter writer;
    write_header(writer, SetupKind::Refusal, key, nonce);
    writer.number(static_cast<std::uint8_t>(reason));
    writer.zeros(7);
    return std::move(writer).written();
}

Bytes encode_sealed(SetupKind kind, const Key& cluster, const SetupExchange& exchange,
                    const SealNonce& seal_nonce, ByteView body) {
    ByteWriter writer;
    write_header(writer, kind, key_id(cluster), exchange.nonce);
    write_cookie(writer, exchange.cookie);
    writer.number(exchange.request);
    writer.bytes(seal_nonce);
    const Key key = exchange_key(cluster, kind, exchange.nonce, exchange.cookie);
    const Bytes sealed = seal(key, seal_nonce, writer.written(), body);
    writer.bytes(sealed);
    return std::move(writer).written();
}

std::optional<Bytes> open_sealed(const Key& cluster, const SetupMessage& message) {
    return unseal(exchange_key(cluster, message.kind, message.nonce, message.cookie),
                  message.seal_nonce, message.header, message.sealed);
}

}  // namespace via::wire
