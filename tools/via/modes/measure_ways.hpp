// SPDX-License-Identifier: BSD-3-Clause
// Measures all ways between two pinned processes, interleaved: in each round every size in every
// way, so that a slow spell of the machine falls on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "cpu_choice.hpp"

namespace via::tool {

struct ModesPlan {
    std::vector<std::uint64_t> sizes;
    std::uint32_t rounds = 15;
    std::uint32_t messages = 200;  ///< of a size in a way, in each round
    CpuPair cpus;
    bool show_progress = true;
};

/// One size in one way; a value for each round, the median of its messages.
struct WayResult {
    std::size_t way = 0;  ///< index into all_ways()
    std::uint64_t bytes = 0;
    std::vector<double> one_way_us;   ///< half a round trip
    std::vector<double> complete_us;  ///< until the sender sees the end
    std::vector<double> free_us;      ///< until the sender may write into its buffer again
};

struct ModesResult {
    std::vector<WayResult> ways;
    bool cma = true;            ///< false: the kernel refused it, and those ways are missing
    double clock_ns = 0;        ///< a look at the clock; it is taken off the times
    std::uint64_t timed = 0;    ///< messages; a few bytes of each were compared
    std::uint64_t checked = 0;  ///< further messages; every byte of each was compared
};

[[nodiscard]] base::Result<ModesResult> measure_ways(const ModesPlan& plan);

}  // namespace via::tool
