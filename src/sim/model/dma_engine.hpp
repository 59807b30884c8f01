// SPDX-License-Identifier: BSD-3-Clause
// The DMA engines of a NIC: one between host and NIC memory, which works one way at a time, and one
// from NIC memory onto the cable. What arrives is in a buffer already.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/nic.hpp"
#include "sim/model/nic_memory.hpp"
#include "sim/model/pci_bus.hpp"
#include "sim/model/switch.hpp"

namespace via::sim {

class HostDma {
  public:
    HostDma(Simulation& simulation, PciBus& bus, NicMemory& memory, const Machine& machine,
            const std::string& nic_name);

    /// For firmware that locks the engine before it sets it up.
    [[nodiscard]] Acquisition lock(std::string_view label, std::uint64_t message) noexcept {
        return engine_.acquire(label, message);
    }
    /// One DMA: the engine is held from its start, or since it was locked, to its last byte.
    [[nodiscard]] Task<> transfer(Toward toward, std::uint64_t bytes, std::string_view label,
                                  std::uint64_t message, Hold engine = {});
    /// Two of them in one chain, which the engine performs without being started again.
    [[nodiscard]] Task<> transfer_chain(Toward toward, std::uint64_t bytes, Toward then,
                                        std::uint64_t further_bytes, std::string_view label,
                                        std::uint64_t message);

  private:
    [[nodiscard]] Task<> move(Toward toward, std::uint64_t bytes, std::string_view label,
                              std::uint64_t message);

    Simulation& simulation_;
    PciBus& bus_;
    NicMemory& memory_;
    Requester master_;
    Resource engine_;
    Time latency_;
};

class SendDma {
  public:
    SendDma(Simulation& simulation, NicMemory& memory, const Machine& machine, const Nic& nic,
            const std::string& nic_name);

    /// When the receiver has a buffer for it.
    [[nodiscard]] Task<> transmit(Switch& network, Packet packet);

  private:
    Simulation& simulation_;
    NicMemory& memory_;
    Resource engine_;
    double link_rate_;
    Time gap_;
};

}  // namespace via::sim
