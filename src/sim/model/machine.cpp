// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/machine.hpp"

#include <array>

namespace via::sim {

std::span<const Declaration<Machine>> machine_parameters() {
    using M = Machine;
    static constexpr std::array declarations{
        Declaration<M>{"pio_per_byte", "ns/byte", 0.1, 1000, &M::pio_per_byte,
                       "copying into NIC memory by the processor"},
        Declaration<M>{"pio_unit", "bytes", 1, 4096, &M::pio_unit, "what is copied at least"},
        Declaration<M>{"start_by_reference", "us", 0, 100, &M::start_by_reference,
                       "starting a send that gives the structure's address"},
        Declaration<M>{"start_with_structure", "us", 0, 100, &M::start_with_structure,
                       "starting one whose structure is in NIC memory"},
        Declaration<M>{"start_with_data", "us", 0, 100, &M::start_with_data,
                       "starting one whose data is there, too"},
        Declaration<M>{"system_call", "us", 0, 1000, &M::system_call,
                       "into the kernel and out, with the arguments checked"},
        Declaration<M>{"page_list_entry", "us", 0, 100, &M::page_list_entry,
                       "the driver translates the address of one page"},
        Declaration<M>{"poll", "us", 0, 100, &M::poll, "one look at a word in host memory"},
        Declaration<M>{"interrupt", "us", 0, 1000, &M::interrupt,
                       "from the NIC's interrupt to the host's answer in NIC memory"},
        Declaration<M>{"bus_clock", "MHz", 1, 1000, &M::bus_clock, "the bus's clock"},
        Declaration<M>{"bus_width", "bytes", 1, 64, &M::bus_width, "the bus's width"},
        Declaration<M>{"burst", "bytes", 4, 65536, &M::burst, "longest burst of a master"},
        Declaration<M>{"fetch_overhead", "ns", 0, 100000, &M::fetch_overhead,
                       "for each burst from host to NIC, besides its data"},
        Declaration<M>{"store_overhead", "ns", 0, 100000, &M::store_overhead,
                       "for each burst from NIC to host, besides its data"},
        Declaration<M>{"send_gap", "ns", 0, 100000, &M::send_gap,
                       "between two packets that one NIC of this host sends"},
        Declaration<M>{"transfer_latency", "ns", 0, 100000, &M::transfer_latency,
                       "from the start of a DMA to its first byte"},
    };
    return declarations;
}

}  // namespace via::sim
