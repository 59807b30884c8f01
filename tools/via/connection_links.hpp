// SPDX-License-Identifier: BSD-3-Clause
// The links of each connection, with what they did between two looks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "counters_snapshot.hpp"

namespace via::tool {

struct LinkReport {
    LinkSnapshot now;
    std::optional<double> sent_bytes_per_s;  ///< none: only one look so far
    std::optional<double> received_bytes_per_s;
    double lost = 0;   ///< share of the packets sent, from 0 to 1
    double share = 0;  ///< of all bytes of the connection, from 0 to 1
};

struct ConnectionLinks {
    std::uint64_t vi_slot = 0;
    std::string device;  ///< empty: the VI is not known
    std::string policy;  ///< likewise
    std::vector<LinkReport> links;
};

/// By the VIs' slots. Loss and shares are those between the looks where anything moved then, else
/// those since the connection began.
[[nodiscard]] std::vector<ConnectionLinks> links_of_connections(
    const CountersSnapshot& now, const std::optional<CountersSnapshot>& before);

/// The same and the changes, as `via links --json` and the page have them: "connections",
/// "changes".
[[nodiscard]] nlohmann::json links_json(const CountersSnapshot& now,
                                        const std::optional<CountersSnapshot>& before);

}  // namespace via::tool
