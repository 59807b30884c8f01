// SPDX-License-Identifier: BSD-3-Clause
// The bus between host and NICs. Masters take turns, burst by burst.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/rate.hpp"
#include "sim/core/resource.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/machine.hpp"

namespace via::sim {

enum class Toward : std::uint8_t { Nic, Host };

class PciBus {
  public:
    PciBus(Simulation& simulation, const Machine& machine, std::string name = "bus");

    /// One who moves data over the bus: the processor or a DMA engine.
    [[nodiscard]] Requester add_master(std::string name) {
        return bus_.add_requester(std::move(name));
    }
    /// Bytes a second of long transfers that have the bus to themselves.
    [[nodiscard]] double rate(Toward toward) const noexcept;
    /// A DMA's data, without its latency. The label lasts as long as the transfer.
    [[nodiscard]] Task<> transfer(Requester master, Toward toward, std::uint64_t bytes,
                                  std::string_view label, std::uint64_t message);
    /// The processor writes into NIC memory, word by word: slow, and the bus is its own.
    [[nodiscard]] Task<> write_by_processor(Requester master, std::uint64_t bytes,
                                            std::string_view label, std::uint64_t message);

  private:
    Simulation& simulation_;
    Resource bus_;
    Rate peak_;
    std::uint64_t burst_;
    std::uint64_t pio_unit_;
    Time fetch_overhead_;
    Time store_overhead_;
    double pio_per_byte_;
    bool shared_;  ///< else nobody waits for another
};

}  // namespace via::sim
