// SPDX-License-Identifier: BSD-3-Clause
// Puts long packets together again that come in several datagrams. Where the kernel has joined all
// of them there is nothing to do, and the packet is taken where it lies; else the datagrams are
// gathered here. It believes nothing: whether what it made is a packet, the checksum says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/long_packet.hpp"

namespace via::links {

class PacketJoiner {
  public:
    [[nodiscard]] bool joining() const noexcept { return wanted_ != 0; }
    /// Of a long packet the first datagram has come, and not all of them together with it.
    void begin(const wire::LongPacketPrefix& prefix, std::span<const std::byte> datagram) {
        begin_unmeasured(prefix, datagram);
        datagram_bytes_ = datagram.size();
    }
    /// A further one. False: it is none of this packet, which is given up.
    [[nodiscard]] bool add(std::span<const std::byte> datagram) {
        const bool measured = datagram_bytes_ != 0;
        if (measured ? datagram.size() != std::min(missing(), datagram_bytes_)
                     : datagram.size() > missing()) {
            give_up();
            return false;
        }
        append(datagram);
        return true;
    }
    /// The same where nobody knows how many datagrams it is that have come.
    void begin_unmeasured(const wire::LongPacketPrefix& prefix,
                          std::span<const std::byte> datagrams) {
        wanted_ = prefix.length;
        datagram_bytes_ = 0;
        packet_.clear();
        packet_.reserve(wanted_);
        append(datagrams.subspan(wire::LongPacketPrefix::bytes));
    }
    void add_unmeasured(std::span<const std::byte> datagrams) { append(datagrams); }
    /// No more than this.
    [[nodiscard]] std::size_t missing() const noexcept { return wanted_ - packet_.size(); }
    [[nodiscard]] bool complete() const noexcept { return packet_.size() == wanted_; }
    /// The packet, which is there until the next one begins.
    [[nodiscard]] std::span<const std::byte> take() noexcept {
        wanted_ = 0;
        return packet_;
    }
    void give_up() noexcept { wanted_ = 0; }

  private:
    void append(std::span<const std::byte> bytes) {
        packet_.insert(packet_.end(), bytes.begin(), bytes.end());
    }

    std::vector<std::byte> packet_;
    std::size_t wanted_ = 0;          ///< bytes of the packet; 0: none is under way
    std::size_t datagram_bytes_ = 0;  ///< of all but the last; 0: not known
};

}  // namespace via::links
