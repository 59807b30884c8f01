// SPDX-License-Identifier: BSD-3-Clause
// A port that is a packet socket with a ring of received frames in memory (AF_PACKET,
// TPACKET_V2). Looking for a packet is a look at memory, without a system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "na/net/pairing.hpp"
#include "na/net/port.hpp"
#include "na/net/raw/raw_frame.hpp"

namespace via::na::net {

class PacketRingPort final : public Port {
  public:
    [[nodiscard]] static base::Result<std::unique_ptr<Port>> open(const LocalInterface& where,
                                                                  std::uint32_t own_id,
                                                                  const RawAddress& peer);
    ~PacketRingPort() override;
    PacketRingPort(const PacketRingPort&) = delete;
    PacketRingPort& operator=(const PacketRingPort&) = delete;

    [[nodiscard]] SendOutcome send(std::span<const iovec> parts,
                                   std::uint32_t packet_bytes) override;
    [[nodiscard]] bool receive(PacketTaker& taker) override;
    [[nodiscard]] int descriptor() const noexcept override { return socket_.get(); }
    [[nodiscard]] std::uint32_t max_packet_bytes() const noexcept override { return max_packet_; }
    [[nodiscard]] std::uint32_t max_train_bytes() const noexcept override { return max_packet_; }

  private:
    PacketRingPort(const LocalInterface& where, std::uint32_t own_id, const RawAddress& peer,
                   base::UniqueFd socket);
    base::Result<void> set_up();
    void read_mtu() noexcept;

    LocalInterface where_;
    std::uint32_t own_id_;
    RawAddress peer_;
    base::UniqueFd socket_;
    std::uint32_t max_packet_ = 0;
    std::uint32_t largest_packet_ = 0;  ///< what the ring was made for
    std::vector<std::byte> outgoing_;   ///< the header, and room for a packet
    std::byte* ring_ = nullptr;
    std::size_t ring_bytes_ = 0;
    std::size_t frame_bytes_ = 0;
    std::size_t next_ = 0;
};

}  // namespace via::na::net
