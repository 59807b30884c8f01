// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/nic.hpp"

#include <array>

namespace via::sim {

std::span<const Declaration<Nic>> nic_parameters() {
    using N = Nic;
    static constexpr std::array declarations{
        Declaration<N>{"clock", "MHz", 1, 1000, &N::clock, "clock of processor and memory"},
        Declaration<N>{"memory_width", "bytes", 1, 64, &N::memory_width,
                       "bytes in one access to NIC memory"},
        Declaration<N>{"accesses_per_clock", "accesses", 1, 8, &N::accesses_per_clock,
                       "accesses to NIC memory in one clock, by all; each DMA engine one at most"},
        Declaration<N>{"link", "MB/s", 1, 100000, &N::link, "the link's rate"},
        Declaration<N>{"packet_header", "bytes", 0, 4096, &N::packet_header,
                       "on the link besides the data"},
        Declaration<N>{"hop", "ns", 0, 100000, &N::hop, "from NIC to NIC through one switch"},
    };
    return declarations;
}

}  // namespace via::sim
