// SPDX-License-Identifier: BSD-3-Clause
// A host of the papers: what its processor and its bus cost.
#pragma once

#include <span>

#include "sim/parameters/declaration.hpp"

namespace via::sim {

struct Machine {
    // Processor.
    double pio_per_byte = 0;          ///< ns: copying into NIC memory
    double pio_unit = 0;              ///< bytes: less than this is not copied
    double start_by_reference = 0;    ///< µs: of a send that gives the structure's address
    double start_with_structure = 0;  ///< µs: of one whose structure is in NIC memory
    double start_with_data = 0;       ///< µs: of one whose data is there, too
    double system_call = 0;           ///< µs: in and out, arguments checked
    double page_list_entry = 0;       ///< µs: the driver translates one page
    double poll = 0;                  ///< µs: one look at a word in host memory
    double interrupt = 0;             ///< µs: from the NIC's wish to the host's answer

    // Bus.
    double bus_clock = 0;         ///< MHz
    double bus_width = 0;         ///< bytes
    double burst = 0;             ///< bytes at most in one go
    double fetch_overhead = 0;    ///< ns for a burst from host to NIC
    double store_overhead = 0;    ///< ns for one from NIC to host
    double send_gap = 0;          ///< ns between two packets of one NIC
    double transfer_latency = 0;  ///< ns from the start of a DMA to its first byte

    /// No parameter of a real machine but an ablation: without it every master has a bus of its
    /// own.
    bool masters_share_bus = true;
};

[[nodiscard]] std::span<const Declaration<Machine>> machine_parameters();

}  // namespace via::sim
