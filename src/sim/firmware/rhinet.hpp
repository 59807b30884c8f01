// SPDX-License-Identifier: BSD-3-Clause
// RHiNET-1/NI: no firmware but hardware; independent steps run at the same time. What its logic
// does takes clocks, what bus and memory do takes the same time at every clock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/core/time.hpp"
#include "sim/model/machine.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {

struct Rhinet {
    double clock = 0;            ///< MHz
    double read_address = 0;     ///< cycles: the register (SAR) that says where the structure is
    double setup_transfer = 0;   ///< cycles: of a DMA
    double structure_delay = 0;  ///< ns: until the structure comes
    double read_structure = 0;   ///< cycles
    double turnaround = 0;       ///< ns: from the structure to the next DMA
    double data_delay = 0;       ///< ns: until the data comes
    double burst = 0;            ///< bytes
    double burst_cycles = 0;     ///< for a burst of so many bytes
    double setup_fifo = 0;       ///< cycles, beside the data
    double end_of_packet = 0;    ///< cycles
    double setup_send = 0;       ///< cycles, beside the start of the data's DMA
    double send_header = 0;      ///< cycles, likewise
    double send_delay = 0;       ///< cycles, likewise
};
[[nodiscard]] std::span<const Declaration<Rhinet>> rhinet_parameters();

enum class Bursts : std::uint8_t { Short, Unbroken };

struct RhinetStage {
    std::string name;
    Time begin = 0;
    Time end = 0;
    bool on_the_path = true;  ///< not hidden behind another
};

struct RhinetSend {
    Time total = 0;
    std::vector<RhinetStage> stages;  ///< in the order of their beginnings
};

[[nodiscard]] base::Result<RhinetSend> simulate_rhinet_send(const Machine& machine,
                                                            const Rhinet& nic, Bursts bursts,
                                                            std::uint64_t bytes);

}  // namespace via::sim
