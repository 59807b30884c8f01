// SPDX-License-Identifier: BSD-3-Clause
#include "sim/firmware/link_choice.hpp"

namespace via::sim {

std::optional<LinkPolicy> link_policy(std::string_view name) {
    if (name == "static") return LinkPolicy::Static;
    if (name == "oneway") return LinkPolicy::OneWay;
    if (name == "dynamic") return LinkPolicy::Dynamic;
    return std::nullopt;
}

std::size_t LinkChoice::for_short(std::uint32_t process, const std::vector<bool>& busy) {
    if (policy_ == LinkPolicy::Static) return process % links_;
    // The first half sends; with a single link it does both.
    if (policy_ == LinkPolicy::OneWay) return links_ == 1 ? 0 : next_in_turn() % (links_ / 2);
    for (std::size_t link = 0; link < links_; ++link)
        if (!busy[link]) return link;
    return next_in_turn();
}

std::vector<std::size_t> LinkChoice::for_long(std::uint32_t process, const std::vector<bool>& busy,
                                              const std::vector<bool>& busy_there) {
    if (!cuts()) return {for_short(process, busy)};
    std::vector<std::size_t> free;
    for (std::size_t link = 0; link < links_; ++link)
        if (!busy[link] && !busy_there[link]) free.push_back(link);
    if (free.empty()) free.push_back(next_in_turn());
    return free;
}

}  // namespace via::sim
