// SPDX-License-Identifier: BSD-3-Clause
// A LANai on its bus: memory, processor and DMA engines.
#pragma once

#include <string>

#include "sim/core/simulation.hpp"
#include "sim/model/dma_engine.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/nic.hpp"
#include "sim/model/nic_memory.hpp"
#include "sim/model/nic_processor.hpp"
#include "sim/model/pci_bus.hpp"

namespace via::sim {

struct NicHardware {
    NicHardware(Simulation& simulation, PciBus& bus, const Machine& machine, const Nic& nic,
                const std::string& name)
        : memory(simulation, nic),
          processor(simulation, memory, nic, name + " processor"),
          host_dma(simulation, bus, memory, machine, name),
          send_dma(simulation, memory, machine, nic, name) {}

    NicMemory memory;
    NicProcessor processor;
    HostDma host_dma;
    SendDma send_dma;
};

}  // namespace via::sim
