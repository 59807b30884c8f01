// SPDX-License-Identifier: BSD-3-Clause
// What carries the packets of one link: a UDP socket, a packet ring, AF_XDP. A port is connected to
// one peer port and does nothing but move packets; it blocks never.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/device_copy.hpp"
#include "links/send_outcome.hpp"

namespace via::na::net {

using links::SendOutcome;

/// Takes the packets of one receive, in the order they came and one behind the other; each but the
/// last has that length. The bytes are only there during the call. False: the length was needed to
/// tell the packets apart.
class PacketTaker {
  public:
    virtual ~PacketTaker() = default;
    virtual bool take(std::span<const std::byte> packets, std::size_t packet_bytes) = 0;
    void take(std::span<const std::byte> packet) { take(packet, packet.size()); }
    /// The same where the port has not asked for the length.
    [[nodiscard]] virtual bool take_unmeasured(std::span<const std::byte> packets) = 0;
};

/// Puts the parts together in one place.
inline void gather(std::span<const iovec> parts, std::byte* to) noexcept {
    for (const iovec& part : parts) {
        base::device_copy(to, static_cast<const std::byte*>(part.iov_base), part.iov_len);
        to += part.iov_len;
    }
}

class Port {
  public:
    virtual ~Port() = default;

    /// Sends what the parts hold as packets of `packet_bytes` each, the last one perhaps shorter.
    [[nodiscard]] virtual SendOutcome send(std::span<const iovec> parts,
                                           std::uint32_t packet_bytes) = 0;
    /// Is lend() more than send()?
    [[nodiscard]] virtual bool lends() const noexcept { return false; }
    /// The same as send(); what the parts from the `lent`-th on hold stays as it is until the peer
    /// has acknowledged it, so it need not be copied.
    [[nodiscard]] virtual SendOutcome lend(std::span<const iovec> parts, std::size_t /*lent*/,
                                           std::uint32_t packet_bytes) {
        return send(parts, packet_bytes);
    }
    /// Hands over what has come, at most one batch. False: nothing had.
    [[nodiscard]] virtual bool receive(PacketTaker& taker) = 0;
    /// Readable when packets are there.
    [[nodiscard]] virtual int descriptor() const noexcept = 0;
    /// How fast packets leave, as measured, so that no more of them than needed stand in queues of
    /// this host, before those of others.
    virtual void expect_rate(double /*bytes_per_second*/) noexcept {}
    /// The longest packet it carries now, and the most bytes of one send.
    [[nodiscard]] virtual std::uint32_t max_packet_bytes() const noexcept = 0;
    [[nodiscard]] virtual std::uint32_t max_train_bytes() const noexcept = 0;
};

}  // namespace via::na::net
