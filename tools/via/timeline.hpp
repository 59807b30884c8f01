// SPDX-License-Identifier: BSD-3-Clause
// What each resource of a simulation did when, put in order for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/core/trace.hpp"

namespace via::tool {

struct TimelineBar {
    std::size_t lane = 0;
    std::string label;
    std::uint64_t message = 0;  ///< 0: it belongs to none
    sim::Time begin = 0;
    sim::Time end = 0;
};

struct Timeline {
    struct Lane {
        std::string name;
        std::string host;  ///< "host a", "host b" or "network"
    };
    std::vector<Lane> lanes;        ///< along the way of a message
    std::vector<TimelineBar> bars;  ///< by their beginnings

    [[nodiscard]] sim::Time end() const;
    /// How long the resource of a lane was held.
    [[nodiscard]] sim::Time busy(std::size_t lane) const;
};

/// Spans without a label, such as those of buffers, are left out; those that follow each other
/// without a gap, such as the bursts of a transfer, become one.
[[nodiscard]] Timeline timeline_of(const sim::Trace& trace);

/// "total_us", "resources" with their busy times, "stages": the bars.
[[nodiscard]] nlohmann::json timeline_json(const Timeline& timeline);

/// In Chrome's format for traces, which Perfetto opens: hosts are processes, resources threads.
[[nodiscard]] nlohmann::json trace_events(const Timeline& timeline);

}  // namespace via::tool
