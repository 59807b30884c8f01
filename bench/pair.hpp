// SPDX-License-Identifier: BSD-3-Clause
// Two probes that are taken in turn, and what they gave.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "probe.hpp"
#include "spread.hpp"

namespace via::bench {

struct Pair {
    std::string name;   ///< unique: "latency-8-ucx"
    std::string title;  ///< "8 B latency"
    Probe ours;
    std::optional<Probe> peer;  ///< none: our value stands for itself

    // One value per repetition, not a number where the take failed.
    std::vector<double> our_values;
    std::vector<double> peer_values;  ///< of the best of the peer's rivals, if it has any
    std::vector<std::vector<double>> rival_values;
    std::size_t best_rival = 0;
    std::vector<std::string> failures;
    std::size_t failures_in_a_row = 0;
    double our_seconds = 0;  ///< that all takes of it took
    double peer_seconds = 0;

    /// A repetition's values: of the peer, or of each of its rivals.
    void add_peer_values(std::span<const double> values);
    /// With the rival that it is.
    [[nodiscard]] std::string peer_label() const;
    /// Why there is nothing to compare; empty if there is.
    [[nodiscard]] std::string not_measured() const;
    /// Ours ÷ peer of each repetition, or our values if there is no peer.
    [[nodiscard]] std::vector<double> comparison() const;
};

}  // namespace via::bench
