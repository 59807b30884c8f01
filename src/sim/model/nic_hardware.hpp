// SPDX-License-Identifier: BSD-3-Clause
// A LANai on its bus: processor, memory, one DMA engine between host and memory that works one way
// at a time, one that sends; what arrives is in a buffer already.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/nic.hpp"
#include "sim/model/nic_memory.hpp"
#include "sim/model/nic_processor.hpp"
#include "sim/model/pci_bus.hpp"
#include "sim/model/switch.hpp"

namespace via::sim {

class NicHardware {
  public:
    NicHardware(Simulation& simulation, PciBus& bus, const Machine& machine, const Nic& nic,
                const std::string& name);

    [[nodiscard]] NicProcessor& processor() noexcept { return processor_; }

    /// The engine between host and NIC memory, for firmware that locks it before it sets it up.
    [[nodiscard]] Acquisition lock_engine(std::string_view label, std::uint64_t message) noexcept {
        return host_engine_.acquire(label, message);
    }
    /// One DMA: the engine is held from its start, or since it was locked, to its last byte.
    [[nodiscard]] Task<> transfer(Toward toward, std::uint64_t bytes, std::string_view label,
                                  std::uint64_t message, Hold engine = {});
    /// Two of them in one chain, which the engine performs without being started again.
    [[nodiscard]] Task<> transfer_chain(Toward toward, std::uint64_t bytes, Toward then,
                                        std::uint64_t further_bytes, std::string_view label,
                                        std::uint64_t message);
    /// From NIC memory onto the cable.
    [[nodiscard]] Task<> transmit(Switch& network, Packet packet);

  private:
    [[nodiscard]] Task<> move(Toward toward, std::uint64_t bytes, std::string_view label,
                              std::uint64_t message);

    Simulation& simulation_;
    PciBus& bus_;
    Requester master_;
    NicMemory memory_;
    NicProcessor processor_;
    Resource host_engine_;
    Resource send_engine_;
    double link_rate_;
    Time latency_;
    Time send_gap_;
};

}  // namespace via::sim
