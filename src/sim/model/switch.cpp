// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/switch.hpp"

#include <algorithm>
#include <utility>

namespace via::sim {

std::string host_name(std::size_t number) {
    constexpr std::size_t letters = 26;
    std::string name(1, static_cast<char>('a' + number % letters));
    if (number >= letters) name += std::to_string(number / letters);
    return name;
}

Switch::Port::Port(Simulation& simulation, const std::string& name, std::uint32_t receive_buffers)
    : inward(simulation, name + " to switch"),
      outward(simulation, "switch to " + name),
      buffers(simulation, name + " receive buffers", receive_buffers),
      arrivals(simulation) {}

Switch::Switch(Simulation& simulation, const Nic& nic, std::size_t ports,
               std::uint32_t receive_buffers, const std::string& name)
    : simulation_(simulation),
      rate_(nic.link * 1e6),
      header_(static_cast<std::uint64_t>(nic.packet_header)),
      hop_(nanoseconds(nic.hop)) {
    for (std::size_t port = 0; port < ports; ++port)
        ports_.push_back(
            std::make_unique<Port>(simulation, name + host_name(port), receive_buffers));
}

Task<> Switch::carry(Packet packet, double sender_bytes_per_second) {
    const Rate rate(static_cast<std::uint64_t>(std::min(rate_, sender_bytes_per_second)));
    {
        Hold inward = co_await ports_[packet.from]->inward.acquire("packet", packet.message);
        Hold outward = co_await ports_[packet.to]->outward.acquire("packet", packet.message);
        co_await simulation_.delay(rate.time_for(packet.bytes + header_));
    }
    simulation_.spawn(arrive(std::move(packet)));
}

Task<> Switch::arrive(Packet packet) {
    co_await simulation_.delay(hop_);
    Mailbox<Packet>& arrivals = ports_[packet.to]->arrivals;
    co_await arrivals.put(std::move(packet));
}

}  // namespace via::sim
