// SPDX-License-Identifier: BSD-3-Clause
// The relay: a process that takes packets of a host off its link, keeps, damages or delays them and
// puts them in at the other end, as if they had come over the link. For what this kernel has no
// queue discipline for. Only the packets that the rules send to it pay for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "link_state.hpp"

namespace via::lab {

struct RelayPlan {
    std::string process_name;
    std::string from_space;   ///< the sending host's namespace; the process lives there
    std::string from_device;  ///< to be made: what is sent to it the relay takes
    std::string to_space;
    std::string to_device;  ///< to be made: what the relay puts in comes from it
    LinkState state;
};

/// How much longer a packet is held that others shall overtake.
inline constexpr base::Nanoseconds reorder_hold = 1'000'000;

/// Returns when both devices are there. The process goes on alone until it is ended or its
/// namespace loses its name.
[[nodiscard]] base::Result<void> start_relay(const RelayPlan& plan);

}  // namespace via::lab
