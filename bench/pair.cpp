// SPDX-License-Identifier: BSD-3-Clause
#include "pair.hpp"

namespace via::bench {

std::string Pair::not_measured() const {
    if (peer && !ours.missing.empty() && !peer->missing.empty() && ours.missing != peer->missing) {
        return ours.missing + "; " + peer->missing;
    }
    if (!ours.missing.empty()) return ours.missing;
    if (peer && !peer->missing.empty()) return peer->missing;
    const std::size_t good = spread_of(comparison()).count;
    // A value that most takes failed to give is chance.
    if (good > 0 && 2 * good > our_values.size()) return {};
    if (failures.empty()) return "not run";
    return failures.front();
}

std::vector<double> Pair::comparison() const {
    return peer ? ratios(our_values, peer_values) : our_values;
}

}  // namespace via::bench
