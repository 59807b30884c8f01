// SPDX-License-Identifier: BSD-3-Clause
// The host's processor: computing, looking at memory, entering the kernel, and writing into NIC
// memory word by word, which takes the bus as well. One thing at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/pci_bus.hpp"

namespace via::sim {

class HostProcessor {
  public:
    HostProcessor(Simulation& simulation, PciBus& bus, const Machine& machine,
                  const std::string& name);

    /// The label lasts as long as the work.
    [[nodiscard]] Task<> work(Time duration, std::string_view label, std::uint64_t message = 0);
    /// Programmed input and output: into NIC memory.
    [[nodiscard]] Task<> write(std::uint64_t bytes, std::string_view label,
                               std::uint64_t message = 0);

    [[nodiscard]] Time poll() const noexcept { return poll_; }
    [[nodiscard]] Time system_call() const noexcept { return system_call_; }
    /// From the NIC's interrupt to the host's answer.
    [[nodiscard]] Time interrupt() const noexcept { return interrupt_; }

  private:
    Simulation& simulation_;
    PciBus& bus_;
    Requester master_;
    Resource processor_;
    Time poll_;
    Time system_call_;
    Time interrupt_;
};

}  // namespace via::sim
