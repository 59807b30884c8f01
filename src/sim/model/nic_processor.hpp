// SPDX-License-Identifier: BSD-3-Clause
// The NIC's processor: one thing at a time, first come first served, slower while DMA engines use
// its memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/nic.hpp"
#include "sim/model/nic_memory.hpp"

namespace via::sim {

class NicProcessor {
  public:
    NicProcessor(Simulation& simulation, NicMemory& memory, const Nic& nic,
                 std::string name = "NIC processor");

    /// The label lasts as long as the work.
    [[nodiscard]] Task<> work(double cycles, std::string_view label, std::uint64_t message);

  private:
    Simulation& simulation_;
    NicMemory& memory_;
    Resource processor_;
    double cycle_;  ///< picoseconds
};

}  // namespace via::sim
