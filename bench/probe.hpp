// SPDX-License-Identifier: BSD-3-Clause
// One thing that can be measured as often as one likes; each take is a fresh run.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "group.hpp"
#include "quantity.hpp"

namespace via::bench {

struct Probe {
    std::string label;  ///< "via", "UCX tag_lat", "bare cache line"
    Quantity quantity = Quantity::OneWayMicroseconds;
    std::string missing;  ///< why it can not be taken here and what to install; empty if it can
    std::function<base::Result<double>()> take;
    double seconds = 0.7;  ///< about how long a take is, until the first one shows it
    /// If there are any, each of them is taken instead, and the best stands for it (see Pair).
    std::vector<Probe> rivals{};
};

/// A value for a message size.
struct Point {
    std::size_t bytes = 0;
    double value = 0;
};

/// A line of a plot. Each step is a fresh run that gives one or more of its points.
struct Curve {
    std::string label;
    Quantity quantity = Quantity::OneWayMicroseconds;
    std::string missing;
    std::vector<std::function<base::Result<std::vector<Point>>()>> steps;
    Group group = Group::InHost;
};

/// A stream's message rate as bytes per second.
[[nodiscard]] Probe in_bytes_per_second(Probe message_rate, std::size_t bytes);

/// The sum of probes that are taken one after the other. If one fails there is none.
[[nodiscard]] Probe sum_of(std::string label, std::vector<Probe> probes);

/// Of those that can be taken here the one that is best by its median: the best of single takes
/// would be chance, the more so the more there are of them.
[[nodiscard]] Probe best_of(std::string label, std::vector<Probe> probes);

/// A curve with one run per point.
[[nodiscard]] Curve curve_of(std::string label, const std::vector<std::size_t>& sizes,
                             const std::function<Probe(std::size_t bytes)>& probe_for);

/// From the first to the last, every one of them.
[[nodiscard]] std::vector<std::size_t> powers_of_two(std::size_t first, std::size_t last);

/// How often a message is sent in one take: enough for a steady value, in a fraction of a second.
[[nodiscard]] std::size_t latency_iterations(std::size_t bytes);
[[nodiscard]] std::size_t stream_iterations(std::size_t bytes);

}  // namespace via::bench
