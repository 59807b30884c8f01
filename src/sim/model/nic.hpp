// SPDX-License-Identifier: BSD-3-Clause
// A programmable NIC of the papers: processor, memory and link.
#pragma once

#include <span>

#include "sim/parameters/declaration.hpp"

namespace via::sim {

struct Nic {
    double clock = 0;               ///< MHz, of processor and memory
    double memory_width = 0;        ///< bytes in one access
    double accesses_per_clock = 0;  ///< of the memory; each DMA engine makes one at most
    double link = 0;                ///< MB/s
    double packet_header = 0;       ///< bytes on the link besides the data
    double hop = 0;                 ///< ns from NIC to NIC through one switch

    /// No parameter of a real NIC but an ablation: all DMA engines together make one access a
    /// clock.
    bool engines_share_access = false;
};

[[nodiscard]] std::span<const Declaration<Nic>> nic_parameters();

}  // namespace via::sim
