// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/nic_memory.hpp"

namespace via::sim {

NicMemory::NicMemory(Simulation& simulation, const Nic& nic)
    : simulation_(simulation),
      accesses_(nic.accesses_per_clock),
      engine_rate_(nic.clock * 1e6 * nic.memory_width),
      engine_accesses_(simulation, "NIC memory", nic.engines_share_access ? 1 : most_engines),
      changed_(simulation) {}

}  // namespace via::sim
