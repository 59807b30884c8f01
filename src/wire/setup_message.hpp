// SPDX-License-Identifier: BSD-3-Clause
// The datagrams by which the kernel agents of two hosts set connections up, but for what is sealed
// in them. docs/wire.md shows every byte.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "wire/byte_reader.hpp"
#include "wire/seal.hpp"

namespace via::wire {

inline constexpr std::uint8_t setup_version = 2;
/// No datagram of this protocol is longer: it fits every link that IPv6 may use.
inline constexpr std::size_t max_setup_bytes = 1232;

enum class SetupKind : std::uint8_t {
    Hello = 1,  ///< A → B: who are you?
    Challenge,  ///< B → A: show that you are where you say
    Refusal,    ///< B → A: another key or version; the same in all versions
    Request,    ///< A → B, sealed: the connection asked for
    Outcome,    ///< B → A, sealed
    Confirm,    ///< A → B, sealed: it is taken
    Confirmed,  ///< B → A, sealed
    Cancel,     ///< A → B, sealed: it is not wanted any more
};
enum class RefusalReason : std::uint8_t { WrongKey = 1, WrongVersion = 2 };

/// Of one request; everything about it carries it.
using SetupNonce = std::array<std::uint8_t, 16>;
/// What B can recognise without having kept anything: a time and a MAC.
struct Cookie {
    std::uint64_t slot = 0;
    Mac mac{};
    friend bool operator==(const Cookie&, const Cookie&) = default;
};

inline constexpr std::size_t setup_header_bytes = 32;
/// Padded, so that no answer to it is longer.
inline constexpr std::size_t hello_bytes = 96;
inline constexpr std::size_t challenge_bytes = setup_header_bytes + 24;
inline constexpr std::size_t refusal_bytes = setup_header_bytes + 8;
/// What is before the sealed body, and authenticated by it.
inline constexpr std::size_t sealed_header_bytes = setup_header_bytes + 24 + 8 + 24;
inline constexpr std::size_t max_sealed_body_bytes =
    max_setup_bytes - sealed_header_bytes - seal_tag_bytes;
static_assert(challenge_bytes <= hello_bytes && refusal_bytes <= hello_bytes &&
              challenge_bytes <= sealed_header_bytes);

/// A datagram as it came; only the fields of its kind mean anything.
struct SetupMessage {
    SetupKind kind = SetupKind::Hello;
    std::uint8_t version = setup_version;
    KeyId key{};
    SetupNonce nonce{};
    RefusalReason reason = RefusalReason::WrongKey;
    Cookie cookie;              ///< Challenge and sealed ones
    std::uint64_t request = 0;  ///< sealed ones
    SealNonce seal_nonce{};
    ByteView header;  ///< of the datagram
    ByteView sealed;
};

[[nodiscard]] constexpr bool is_sealed(SetupKind kind) noexcept {
    return kind >= SetupKind::Request;
}

/// Empty: it is none of ours. A Hello or Refusal of another version is given with that version.
[[nodiscard]] std::optional<SetupMessage> decode_setup(ByteView datagram);

[[nodiscard]] Bytes encode_hello(const KeyId& key, const SetupNonce& nonce);
[[nodiscard]] Bytes encode_challenge(const KeyId& key, const SetupNonce& nonce,
                                     const Cookie& cookie);
[[nodiscard]] Bytes encode_refusal(const KeyId& key, const SetupNonce& nonce, RefusalReason reason);

/// What names a sealed exchange and makes its keys.
struct SetupExchange {
    SetupNonce nonce{};
    Cookie cookie;
    std::uint64_t request = 0;
};
[[nodiscard]] Bytes encode_sealed(SetupKind kind, const Key& cluster, const SetupExchange& exchange,
                                  const SealNonce& seal_nonce, ByteView body);
/// The body of a sealed message, if this cluster's key opens it.
[[nodiscard]] std::optional<Bytes> open_sealed(const Key& cluster, const SetupMessage& message);

}  // namespace via::wire
