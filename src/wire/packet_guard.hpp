// SPDX-License-Identifier: BSD-3-Clause
// What protects the packets of one connection: a checksum that is seeded with a secret of the
// connection, or authenticated encryption (VIA_NET_SECURE).
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wire/crc32c.hpp"
#include "wire/packet.hpp"
#include "wire/seal.hpp"

namespace via::wire {

using SessionKey = Key;

class PacketGuard {
  public:
    /// Both ends derive the same secrets from the key; the directions have different ones.
    PacketGuard(const SessionKey& key, bool requester, bool sealed);

    /// Bytes that it adds to a packet.
    [[nodiscard]] std::uint32_t overhead() const noexcept { return sealed_ ? tag_bytes : 0; }
    /// The whole packet must lie in one piece of memory that may be changed.
    [[nodiscard]] bool sealed() const noexcept { return sealed_; }
    /// Of the checksum of packets that go out, for those who take it while they put them together.
    [[nodiscard]] std::uint32_t seed() const noexcept { return seed_out_; }

    /// Completes a packet whose parts follow each other; the first begins with the header, whose
    /// number is the low half of `number`. The last `overhead()` bytes are for the tag.
    void protect(const PacketHeader& header, std::uint64_t number,
                 std::span<const iovec> parts) const noexcept {
        if (sealed_) [[unlikely]]
            return seal(header, number, parts[0]);
        auto* const first = static_cast<std::byte*>(parts[0].iov_base);
        std::uint32_t checksum = crc32c(seed_out_, first + PacketHeader::covered_from,
                                        parts[0].iov_len - PacketHeader::covered_from);
        for (const iovec& part : parts.subspan(1))
            checksum = crc32c(checksum, part.iov_base, part.iov_len);
        store(first + PacketHeader::checksum_at, checksum);
    }
    /// The frames of a packet, or nothing if it is not genuine. The frames may lie in `opened`.
    [[nodiscard]] std::optional<std::span<const std::byte>> open(
        const PacketHeader& header, std::uint64_t number, std::span<const std::byte> packet,
        std::vector<std::byte>& opened) const {
        if (((header.flags & packet_sealed) != 0) != sealed_) return std::nullopt;
        if (sealed_) [[unlikely]]
            return unseal(header, number, packet, opened);
        if (crc32c(seed_in_, packet.data() + PacketHeader::covered_from,
                   packet.size() - PacketHeader::covered_from) != header.checksum)
            return std::nullopt;
        return packet.subspan(PacketHeader::bytes);
    }

    /// The same for one that is not sealed, whose payload is copied to its place in one go with the
    /// checking. If the packet is not genuine, anything may lie there.
    [[nodiscard]] bool open_to(const PacketHeader& header, std::span<const std::byte> packet,
                               std::span<const std::byte> payload,
                               std::byte* place) const noexcept {
        if (sealed_ || (header.flags & packet_sealed) != 0) return false;
        const std::byte* const front = packet.data() + PacketHeader::covered_from;
        const std::byte* const back = payload.data() + payload.size();
        std::uint32_t checksum =
            crc32c(seed_in_, front, static_cast<std::size_t>(payload.data() - front));
        checksum = crc32c_copy(checksum, place, payload.data(), payload.size());
        checksum =
            crc32c(checksum, back, packet.size() - static_cast<std::size_t>(back - packet.data()));
        return checksum == header.checksum;
    }

  private:
    void seal(const PacketHeader& header, std::uint64_t number, const iovec& whole) const noexcept;
    [[nodiscard]] std::optional<std::span<const std::byte>> unseal(
        const PacketHeader& header, std::uint64_t number, std::span<const std::byte> packet,
        std::vector<std::byte>& opened) const;

    static constexpr std::uint32_t tag_bytes = 16;
    using Nonce = std::array<std::uint8_t, 12>;
    [[nodiscard]] static Nonce nonce_of(std::uint8_t link, std::uint64_t number) noexcept;

    bool sealed_;
    std::uint32_t seed_out_ = 0;
    std::uint32_t seed_in_ = 0;
    SessionKey key_out_{};
    SessionKey key_in_{};
};

}  // namespace via::wire
