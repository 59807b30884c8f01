// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/dma_engine.hpp"

#include <algorithm>
#include <utility>

namespace via::sim {

HostDma::HostDma(Simulation& simulation, PciBus& bus, NicMemory& memory, const Machine& machine,
                 const std::string& nic_name)
    : simulation_(simulation),
      bus_(bus),
      memory_(memory),
      master_(bus.add_master(nic_name)),
      engine_(simulation, nic_name + " host DMA"),
      latency_(nanoseconds(machine.transfer_latency)) {}

Task<> HostDma::move(Toward toward, std::uint64_t bytes, std::string_view label,
                     std::uint64_t message) {
    const NicMemory::Use use(memory_, bus_.rate(toward));
    co_await bus_.transfer(master_, toward, bytes, label, message);
}

Task<> HostDma::transfer(Toward toward, std::uint64_t bytes, std::string_view label,
                         std::uint64_t message, Hold engine) {
    if (!engine) engine = co_await engine_.acquire(label, message);
    co_await simulation_.delay(latency_);
    co_await move(toward, bytes, label, message);
}

Task<> HostDma::transfer_chain(Toward toward, std::uint64_t bytes, Toward then,
                               std::uint64_t further_bytes, std::string_view label,
                               std::uint64_t message) {
    Hold engine = co_await engine_.acquire(label, message);
    co_await simulation_.delay(latency_);
    co_await move(toward, bytes, label, message);
    co_await move(then, further_bytes, label, message);
}

SendDma::SendDma(Simulation& simulation, NicMemory& memory, const Machine& machine, const Nic& nic,
                 const std::string& nic_name)
    : simulation_(simulation),
      memory_(memory),
      engine_(simulation, nic_name + " send DMA"),
      link_rate_(nic.link * 1e6),
      gap_(nanoseconds(machine.send_gap)) {}

Task<> SendDma::transmit(Switch& network, Packet packet) {
    Hold engine = co_await engine_.acquire("send", packet.message);
    packet.buffer = co_await network.receive_buffer(packet.to);
    {
        const NicMemory::Use use(memory_, std::min(memory_.engine_rate(), link_rate_));
        co_await network.carry(std::move(packet), memory_.engine_rate());
    }
    co_await simulation_.delay(gap_);
}

}  // namespace via::sim
