// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/figures.hpp"

#include <cmath>

namespace via::sim {

std::string_view kind_name(FigureKind kind) noexcept {
    switch (kind) {
        case FigureKind::Printed:
            return "printed";
        case FigureKind::About:
            return "about";
        case FigureKind::AtLeast:
            return "at least";
        case FigureKind::Between:
            return "between";
        case FigureKind::Order:
            return "order";
        case FigureKind::Unprinted:
            return "unprinted";
    }
    return "unknown";
}

std::string_view role_name(FigureRole role) noexcept {
    return role == FigureRole::Fitted ? "fitted" : "predicted";
}

double Figure::error_percent(double model) const {
    if (kind == FigureKind::Unprinted) return 0;
    const double end = model < low ? low : high;
    if (model >= low && model <= high) return 0;
    // Of nothing there is no percentage: then the difference itself counts, as a share.
    return (end == 0 ? model : model / end - 1) * 100;
}

bool Figure::is_met(double model) const {
    return std::isfinite(model) && std::abs(error_percent(model)) <= tolerance;
}

base::Result<std::vector<AnsweredFigure>> answer_figures(Laboratory& laboratory) {
    std::vector<AnsweredFigure> answered;
    [[maybe_unused]] const auto before = laboratory.take_used();
    for (const Figure& figure : paper_figures()) {
        const double model = figure.question(laboratory);
        if (laboratory.failure()) return *laboratory.failure();
        answered.push_back({&figure, model, laboratory.take_used()});
    }
    return answered;
}

}  // namespace via::sim
