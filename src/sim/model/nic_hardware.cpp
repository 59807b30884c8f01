// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/nic_hardware.hpp"

#include <algorithm>
#include <utility>

namespace via::sim {

NicHardware::NicHardware(Simulation& simulation, PciBus& bus, const Machine& machine,
                         const Nic& nic, const std::string& name)
    : simulation_(simulation),
      bus_(bus),
      master_(bus.add_master(name)),
      memory_(simulation, nic),
      processor_(simulation, memory_, nic, name + " processor"),
      host_engine_(simulation, name + " host DMA"),
      send_engine_(simulation, name + " send DMA"),
      link_rate_(nic.link * 1e6),
      latency_(nanoseconds(machine.transfer_latency)),
      send_gap_(nanoseconds(machine.send_gap)) {}

Task<> NicHardware::move(Toward toward, std::uint64_t bytes, std::string_view label,
                         std::uint64_t message) {
    const NicMemory::Use use(memory_, bus_.rate(toward));
    co_await bus_.transfer(master_, toward, bytes, label, message);
}

Task<> NicHardware::transfer(Toward toward, std::uint64_t bytes, std::string_view label,
                             std::uint64_t message, Hold engine) {
    if (!engine) engine = co_await host_engine_.acquire(label, message);
    co_await simulation_.delay(latency_);
    co_await move(toward, bytes, label, message);
}

Task<> NicHardware::transfer_chain(Toward toward, std::uint64_t bytes, Toward then,
                                   std::uint64_t further_bytes, std::string_view label,
                                   std::uint64_t message) {
    Hold engine = co_await host_engine_.acquire(label, message);
    co_await simulation_.delay(latency_);
    co_await move(toward, bytes, label, message);
    co_await move(then, further_bytes, label, message);
}

Task<> NicHardware::transmit(Switch& network, Packet packet) {
    Hold engine = co_await send_engine_.acquire("send", packet.message);
    packet.buffer = co_await network.receive_buffer(packet.to);
    {
        const NicMemory::Use use(memory_, std::min(memory_.engine_rate(), link_rate_));
        co_await network.carry(std::move(packet), memory_.engine_rate());
    }
    co_await simulation_.delay(send_gap_);
}

}  // namespace via::sim
