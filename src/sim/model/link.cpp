// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/link.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace via::sim {

Link::Link(Simulation& simulation, const Nic& nic, std::uint32_t receive_buffers, std::string name)
    : simulation_(simulation),
      wire_(simulation, name),
      buffers_(simulation, name + " receive buffers", receive_buffers),
      arrivals_(simulation),
      rate_(nic.link * 1e6),
      header_(static_cast<std::uint64_t>(nic.packet_header)),
      hop_(nanoseconds(nic.hop)) {}

Task<> Link::carry(Packet packet, double sender_bytes_per_second) {
    const Rate rate(static_cast<std::uint64_t>(std::min(rate_, sender_bytes_per_second)));
    {
        Hold wire = co_await wire_.acquire("packet", packet.message);
        co_await simulation_.delay(rate.time_for(packet.bytes + header_));
    }
    simulation_.spawn(arrive(std::move(packet)));
}

Task<> Link::arrive(Packet packet) {
    co_await simulation_.delay(hop_);
    co_await arrivals_.put(std::move(packet));
}

}  // namespace via::sim
