// SPDX-License-Identifier: BSD-3-Clause
#include "pair.hpp"

namespace via::bench {

namespace {

/// What most takes failed to give is not to be compared with.
bool is_better(const std::vector<double>& one, const std::vector<double>& other, bool less) {
    const Spread mine = spread_of(one);
    const Spread yours = spread_of(other);
    if (2 * mine.count <= one.size()) return false;
    if (2 * yours.count <= other.size()) return true;
    return less ? mine.median < yours.median : mine.median > yours.median;
}

}  // namespace

void Pair::add_peer_values(std::span<const double> values) {
    if (peer->rivals.empty()) {
        peer_values.push_back(values.front());
        return;
    }
    rival_values.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        rival_values[i].push_back(values[i]);
    best_rival = 0;
    for (std::size_t i = 1; i < rival_values.size(); ++i)
        if (is_better(rival_values[i], rival_values[best_rival], less_is_better(ours.quantity)))
            best_rival = i;
    peer_values = rival_values[best_rival];
}

std::string Pair::peer_label() const {
    if (peer->rivals.empty()) return peer->label;
    return peer->label + ": " + peer->rivals[best_rival].label;
}

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
