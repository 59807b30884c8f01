// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/nic_processor.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace via::sim {

NicProcessor::NicProcessor(Simulation& simulation, NicMemory& memory, const Nic& nic,
                           std::string name)
    : simulation_(simulation),
      memory_(memory),
      processor_(simulation, std::move(name)),
      cycle_(1e6 / nic.clock) {}

Task<> NicProcessor::work(double cycles, std::string_view label, std::uint64_t message) {
    if (cycles <= 0) co_return;
    Hold hold = co_await processor_.acquire(label, message);
    double left = cycles * cycle_;  // picoseconds at full speed
    while (left > 0.5) {
        const double share = memory_.processor_share();
        const Time begun = simulation_.now();
        const Time end = begun + std::max<Time>(1, std::llround(left / share));
        // Until the work is done, or the memory is shared otherwise.
        [[maybe_unused]] const bool changed = co_await memory_.changed().wait(end);
        left -= static_cast<double>(simulation_.now() - begun) * share;
    }
}

}  // namespace via::sim
