// SPDX-License-Identifier: BSD-3-Clause
#include "link_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace via::lab {
namespace {

/// Calls `visit` with the name of each value and a reference to it: the one list of them.
template <class State, class Visit>
void for_each_value(State& state, const Visit& visit) {
    visit("rate", state.rate);
    visit("loss", state.loss);
    visit("duplicate", state.duplicate);
    visit("reorder", state.reorder);
    visit("corrupt", state.corrupt);
    visit("delay", state.delay);
    visit("seed", state.seed);
    visit("silent", state.silent);
    visit("offload", state.offload);
}

constexpr std::string_view mark = "via";

}  // namespace

PartsPerMillion LinkState::relayed_share() const {
    return delay != 0 ? all_parts : std::min(all_parts, reorder + corrupt);
}

std::string to_alias(const LinkState& state) {
    std::string text(mark);
    const LinkState usual;
    for_each_value(state, [&](std::string_view name, const auto& value) {
        bool differs = false;
        for_each_value(usual, [&](std::string_view other, const auto& usual_value) {
            if (other == name)
                differs =
                    static_cast<std::int64_t>(value) != static_cast<std::int64_t>(usual_value);
        });
        if (differs) text += fmt::format(" {}={}", name, static_cast<std::int64_t>(value));
    });
    return text;
}

LinkState from_alias(std::string_view alias) {
    LinkState state;
    if (!alias.starts_with(mark)) return state;
    while (!alias.empty()) {
        const std::size_t end = std::min(alias.find(' '), alias.size());
        const std::string_view word = alias.substr(0, end);
        alias.remove_prefix(std::min(end + 1, alias.size()));
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos) continue;
        std::int64_t number = 0;
        std::from_chars(word.data() + equals + 1, word.data() + word.size(), number);
        for_each_value(state, [&](std::string_view name, auto& value) {
            if (name == word.substr(0, equals))
                value = static_cast<std::remove_reference_t<decltype(value)>>(number);
        });
    }
    return state;
}

}  // namespace via::lab
