// SPDX-License-Identifier: BSD-3-Clause
// The experiment that MyVIA's paper describes and does not print: how often a small ring in NIC
// memory makes the NIC interrupt its host, and how long the NIC runs dry, by the ring's size and
// the low-water mark.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "na/sim/descriptor_ring.hpp"

namespace via::na::sim {

struct RingPlan {
    std::uint32_t small_entries = 64;  ///< a power of two
    std::uint32_t low_water = 16;      ///< below that
    std::uint64_t bytes = 64;          ///< of each message
    std::uint64_t messages = 2000;
    std::uint64_t outstanding = 0;  ///< the host waits while so many are not sent; 0: it never does
};

struct RingResult {
    double mb_per_s = 0;
    RingStatistics ring;
};

/// A host posts messages one behind the other, one PD each.
[[nodiscard]] base::Result<RingResult> simulate_ring(const model::ViaSystem& system,
                                                     const RingPlan& plan);

}  // namespace via::na::sim
