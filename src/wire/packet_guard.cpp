// SPDX-License-Identifier: BSD-3-Clause
#include "wire/packet_guard.hpp"

#include <sodium.h>

#include <cstring>
#include <string_view>

namespace via::wire {
namespace {

/// A key of its own for each use and direction.
SessionKey derive(const SessionKey& key, std::string_view use, bool by_requester) {
    const std::array<std::uint8_t, 1> direction{by_requester ? std::uint8_t{1} : std::uint8_t{2}};
    return derive_key(key, use, {direction});
}

}  // namespace

PacketGuard::PacketGuard(const SessionKey& key, bool requester, bool sealed) : sealed_(sealed) {
    const SessionKey out = derive(key, "viaduct checksum", requester);
    const SessionKey in = derive(key, "viaduct checksum", !requester);
    std::memcpy(&seed_out_, out.data(), sizeof seed_out_);
    std::memcpy(&seed_in_, in.data(), sizeof seed_in_);
    key_out_ = derive(key, "viaduct seal", requester);
    key_in_ = derive(key, "viaduct seal", !requester);
}

PacketGuard::Nonce PacketGuard::nonce_of(std::uint8_t link, std::uint64_t number) noexcept {
    Nonce nonce{};
    nonce[0] = link;
    std::memcpy(nonce.data() + 4, &number, sizeof number);
    return nonce;
}

/// One piece. The header is authenticated, the frames are encrypted where they lie.
void PacketGuard::seal(const PacketHeader& header, std::uint64_t number,
                       const iovec& whole) const noexcept {
    auto* const bytes = static_cast<unsigned char*>(whole.iov_base);
    const std::size_t frames = whole.iov_len - PacketHeader::bytes - tag_bytes;
    const Nonce nonce = nonce_of(header.link, number);
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(
        bytes + PacketHeader::bytes, bytes + PacketHeader::bytes + frames, nullptr,
        bytes + PacketHeader::bytes, frames, bytes, PacketHeader::bytes, nullptr, nonce.data(),
        key_out_.data());
}

std::optional<std::span<const std::byte>> PacketGuard::unseal(
    const PacketHeader& header, std::uint64_t number, std::span<const std::byte> packet,
    std::vector<std::byte>& opened) const {
    if (packet.size() < PacketHeader::bytes + tag_bytes) return std::nullopt;
    const std::size_t frames = packet.size() - PacketHeader::bytes - tag_bytes;
    opened.resize(frames);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(packet.data());
    const Nonce nonce = nonce_of(header.link, number);
    if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(
            reinterpret_cast<unsigned char*>(opened.data()), nullptr, bytes + PacketHeader::bytes,
            frames, bytes + PacketHeader::bytes + frames, bytes, PacketHeader::bytes, nonce.data(),
            key_in_.data()) != 0)
        return std::nullopt;
    return std::span<const std::byte>(opened.data(), frames);
}

}  // namespace via::wire
