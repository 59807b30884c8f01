// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/pci_bus.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace via::sim {

PciBus::PciBus(Simulation& simulation, const Machine& machine, std::string name)
    : simulation_(simulation),
      bus_(simulation, std::move(name)),
      peak_(static_cast<std::uint64_t>(std::llround(machine.bus_clock * machine.bus_width * 1e6))),
      burst_(static_cast<std::uint64_t>(machine.burst)),
      pio_unit_(static_cast<std::uint64_t>(machine.pio_unit)),
      fetch_overhead_(nanoseconds(machine.fetch_overhead)),
      store_overhead_(nanoseconds(machine.store_overhead)),
      pio_per_byte_(machine.pio_per_byte),
      shared_(machine.masters_share_bus) {}

double PciBus::rate(Toward toward) const noexcept {
    const Time overhead = toward == Toward::Nic ? fetch_overhead_ : store_overhead_;
    return static_cast<double>(burst_) * static_cast<double>(second) /
           static_cast<double>(peak_.time_for(burst_) + overhead);
}

Task<> PciBus::transfer(Requester master, Toward toward, std::uint64_t bytes,
                        std::string_view label, std::uint64_t message) {
    const Time overhead = toward == Toward::Nic ? fetch_overhead_ : store_overhead_;
    // From the start of the transfer, so that roundings do not add up.
    std::uint64_t moved = 0;
    while (moved < bytes) {
        const std::uint64_t now = std::min(burst_, bytes - moved);
        const Time data = peak_.time_for(moved + now) - peak_.time_for(moved);
        Hold hold;
        if (shared_) hold = co_await master.acquire(label, message);
        co_await simulation_.delay(overhead + data);
        moved += now;
    }
}

Task<> PciBus::write_by_processor(Requester master, std::uint64_t bytes, std::string_view label,
                                  std::uint64_t message) {
    const std::uint64_t copied = std::max(bytes, pio_unit_);
    std::uint64_t written = 0;
    while (written < copied) {
        const std::uint64_t now = std::min(pio_unit_, copied - written);
        const Time data = nanoseconds(pio_per_byte_ * static_cast<double>(written + now)) -
                          nanoseconds(pio_per_byte_ * static_cast<double>(written));
        Hold hold;
        if (shared_) hold = co_await master.acquire(label, message);
        co_await simulation_.delay(data);
        written += now;
    }
}

}  // namespace via::sim
