// SPDX-License-Identifier: BSD-3-Clause
// A switch with a two-way cable to each NIC. A packet is cut through: while it passes, it occupies
// its sender's cable and its receiver's. It goes only when the receiver has a buffer for it: that
// is Myrinet's back-pressure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/mailbox.hpp"
#include "sim/core/rate.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/nic.hpp"

namespace via::sim {

class Transfer;

/// On its way, or in a buffer of the receiving NIC, which is its own until it is dropped.
struct Packet {
    std::uint32_t from = 0;  ///< port
    std::uint32_t to = 0;
    std::uint64_t message = 0;
    std::uint64_t offset = 0;  ///< of this packet's bytes in the message
    std::uint64_t bytes = 0;
    std::uint64_t total = 0;  ///< of the whole message
    bool last = true;         ///< of its message
    bool control = false;     ///< between the two firmwares; no host is concerned
    std::uint32_t flow = 0;
    std::shared_ptr<Transfer> transfer;  ///< whose bytes they are; null: bytes are only counted
    Hold buffer;
};

class Switch {
  public:
    Switch(Simulation& simulation, const Nic& nic, std::size_t ports, std::uint32_t receive_buffers,
           const std::string& name);

    /// A buffer of the receiver, which the packet then has.
    [[nodiscard]] Acquisition receive_buffer(std::uint32_t port) noexcept {
        return ports_[port]->buffers.acquire();
    }
    /// Occupies the sender until its last byte has left; slower if the NIC's memory is. The packet
    /// arrives, whole, after the hop.
    [[nodiscard]] Task<> carry(Packet packet, double sender_bytes_per_second);
    [[nodiscard]] Mailbox<Packet>& arrivals(std::uint32_t port) noexcept {
        return ports_[port]->arrivals;
    }
    [[nodiscard]] std::size_t ports() const noexcept { return ports_.size(); }

  private:
    struct Port {
        Port(Simulation& simulation, const std::string& name, std::uint32_t receive_buffers);
        Resource inward;   ///< from the NIC
        Resource outward;  ///< to the NIC
        Resource buffers;
        Mailbox<Packet> arrivals;
    };
    Task<> arrive(Packet packet);

    Simulation& simulation_;
    std::vector<std::unique_ptr<Port>> ports_;
    double rate_;
    std::uint64_t header_;
    Time hop_;
};

/// How hosts and their ports are called: a, b, c, …
[[nodiscard]] std::string host_name(std::size_t number);

}  // namespace via::sim
