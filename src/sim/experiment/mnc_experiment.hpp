// SPDX-License-Identifier: BSD-3-Clause
// MNC: GM on several NICs of one bus, with a link each.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "sim/experiment/via_experiment.hpp"
#include "sim/firmware/link_choice.hpp"

namespace via::sim {

struct MncSystem {
    ViaSystem gm;
    std::uint32_t links = 2;
    LinkPolicy policy = LinkPolicy::Dynamic;
};

/// From here on a message is cut, after the other side was asked for its links' state. The paper
/// does not say where; on its machine asking costs more than cutting saves below this.
inline constexpr std::uint64_t mnc_long_message = 16384;

/// As simulate_window, with the links chosen by the policy.
[[nodiscard]] base::Result<double> simulate_mnc_window(const MncSystem& system, std::uint64_t bytes,
                                                       std::uint64_t messages = 2000);
[[nodiscard]] base::Result<double> simulate_mnc_pingpong(const MncSystem& system,
                                                         std::uint64_t bytes,
                                                         std::uint64_t round_trips = 100);

}  // namespace via::sim
