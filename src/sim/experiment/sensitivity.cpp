// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace via::sim {
namespace {

/// Streams are many here; these are long enough to tell a percent.
constexpr Laboratory::Effort small_effort{200, 16U << 20, 5};

/// Less is rounding of picoseconds.
constexpr double least_percent = 0.01;

bool is_uncertain(const KnownParameter& parameter) {
    const bool known = parameter.origin != Origin::Fitted && parameter.origin != Origin::Guessed;
    const bool whole = parameter.unit == "yes/no" || parameter.unit == "buffers";
    return !known && !whole && parameter.value != 0;
}

/// Berkeley VIA's costs, the older switch, the hosts' system calls, and the buses of three boards.
bool is_open(std::string_view file, std::string_view parameter) {
    if (file.starts_with("bvia")) return true;
    if (file == "lanai4.nic") return parameter == "hop";
    if (parameter == "system_call" || parameter == "page_list_entry") return true;
    const bool board =
        file.starts_with("p2-300") || file.starts_with("p3-733") || file.starts_with("athlon-1400");
    return board && (parameter == "burst" || parameter == "fetch_overhead" ||
                     parameter == "store_overhead" || parameter == "transfer_latency");
}

double percent(double value, double of) {
    return of == 0 ? 0 : (value / of - 1) * 100;
}

}  // namespace

double Influence::greatest() const {
    return std::max(std::abs(less_percent), std::abs(more_percent));
}

base::Result<std::vector<Influence>> headline_influences() {
    Laboratory reference(small_effort);
    auto answered = answer_figures(reference);
    if (!answered) return std::move(answered).error();
    std::vector<Influence> influences;
    for (const auto& [file, parameters] : reference.parameters()) {
        for (const KnownParameter& parameter : parameters) {
            if (!is_uncertain(parameter)) continue;
            Laboratory less = reference;
            Laboratory more = reference;
            less.scale(file, parameter.name, 0.9);
            more.scale(file, parameter.name, 1.1);
            for (const AnsweredFigure& each : answered.value()) {
                if (!each.figure->headline || !each.files.contains(file)) continue;
                Influence influence{file,
                                    parameter,
                                    is_open(file, parameter.name),
                                    each.figure,
                                    each.model,
                                    percent(each.figure->question(less), each.model),
                                    percent(each.figure->question(more), each.model)};
                if (influence.greatest() >= least_percent)
                    influences.push_back(std::move(influence));
            }
            for (const Laboratory* changed : {&less, &more})
                if (changed->failure()) return *changed->failure();
        }
    }
    std::sort(influences.begin(), influences.end(), [](const Influence& a, const Influence& b) {
        const double most = a.greatest();
        const double other = b.greatest();
        // Greatest first; equal ones in an order that does not depend on anything else.
        return std::tie(other, a.file, a.parameter.name, a.figure->what) <
               std::tie(most, b.file, b.parameter.name, b.figure->what);
    });
    return influences;
}

}  // namespace via::sim
