// SPDX-License-Identifier: BSD-3-Clause
// Berkeley VIA's two programs, on two simulated hosts: window and pingpong.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.hpp"
#include "sim/core/trace.hpp"
#include "sim/experiment/cluster.hpp"

namespace via::sim {

/// Messages posted one behind the other; MB/s until the last has been received.
[[nodiscard]] base::Result<double> simulate_window(const ViaSystem& system, std::uint64_t bytes,
                                                   std::uint64_t messages = 2000,
                                                   Trace* trace = nullptr);
/// Half the mean time of round trips, in microseconds.
[[nodiscard]] base::Result<double> simulate_pingpong(const ViaSystem& system, std::uint64_t bytes,
                                                     std::uint64_t round_trips = 100,
                                                     Trace* trace = nullptr);

/// Two streams over one link: from one host, or each from its own.
enum class Flows : std::uint8_t { Same, Opposite };
/// MB/s of each.
[[nodiscard]] base::Result<std::array<double, 2>> simulate_flows(const ViaSystem& system,
                                                                 Flows flows, std::uint64_t bytes,
                                                                 std::uint64_t messages = 1000);

}  // namespace via::sim
