// SPDX-License-Identifier: BSD-3-Clause
// The NIC's memory: so many accesses in a clock. A DMA engine takes at most one of them; the
// processor, which fetches an instruction in each clock, gets what is left.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/core/resource.hpp"
#include "sim/core/signal.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/nic.hpp"

namespace via::sim {

class NicMemory {
  public:
    NicMemory(Simulation& simulation, const Nic& nic);

    /// Bytes a second that one DMA engine moves at most.
    [[nodiscard]] double engine_rate() const noexcept { return engine_rate_; }
    /// What an engine holds while it moves data. It waits only if the engines share one access.
    [[nodiscard]] Acquisition access() noexcept { return engine_accesses_.acquire(); }
    /// How much of the processor's speed is left while engines move data.
    [[nodiscard]] double processor_share() const noexcept {
        return std::clamp(accesses_ - taken_, least_share, 1.0);
    }
    /// Pulsed when that changes.
    [[nodiscard]] Signal& changed() noexcept { return changed_; }

    /// An engine moves data at so many bytes a second, for as long as this lives.
    class Use {
      public:
        Use(NicMemory& memory, double bytes_per_second)
            : simulation_(memory.simulation_),
              memory_(memory),
              accesses_(std::min(bytes_per_second / memory.engine_rate_, 1.0)) {
            memory_.change(accesses_);
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() {
            if (!simulation_.is_ending()) memory_.change(-accesses_);
        }

      private:
        Simulation& simulation_;  // asked first: at its end the memory may be gone
        NicMemory& memory_;
        double accesses_;
    };

  private:
    /// However busy the memory is, now and then the processor has its turn.
    static constexpr double least_share = 0.05;
    /// Host, sending and receiving.
    static constexpr std::uint32_t most_engines = 3;
    void change(double accesses) {
        taken_ += accesses;
        changed_.pulse();
    }

    Simulation& simulation_;
    double accesses_;
    double engine_rate_;
    double taken_ = 0;
    Resource engine_accesses_;
    Signal changed_;
};

}  // namespace via::sim
