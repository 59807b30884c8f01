// SPDX-License-Identifier: BSD-3-Clause
// One direction of a link between two NICs. A packet goes only when the other side has a buffer for
// it: that is Myrinet's back-pressure.
#pragma once

#include <cstdint>
#include <string>

#include "sim/core/mailbox.hpp"
#include "sim/core/rate.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/nic.hpp"

namespace via::sim {

/// On its way, or in a buffer of the receiving NIC, which is its own until it is dropped.
struct Packet {
    std::uint64_t message = 0;
    std::uint64_t bytes = 0;  ///< of the message, in this packet
    std::uint64_t total = 0;  ///< of the whole message
    bool last = true;         ///< of its message
    std::uint32_t flow = 0;
    Hold buffer;
};

class Link {
  public:
    Link(Simulation& simulation, const Nic& nic, std::uint32_t receive_buffers, std::string name);

    /// A buffer of the receiver, which the packet then has.
    [[nodiscard]] Acquisition receive_buffer() noexcept { return buffers_.acquire(); }
    /// Occupies the sender until its last byte has left; slower if the NIC's memory is. The packet
    /// arrives, whole, after the hop.
    [[nodiscard]] Task<> carry(Packet packet, double sender_bytes_per_second);
    [[nodiscard]] Mailbox<Packet>& arrivals() noexcept { return arrivals_; }

  private:
    Task<> arrive(Packet packet);

    Simulation& simulation_;
    Resource wire_;
    Resource buffers_;
    Mailbox<Packet> arrivals_;
    double rate_;
    std::uint64_t header_;
    Time hop_;
};

}  // namespace via::sim
