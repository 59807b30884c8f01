// SPDX-License-Identifier: BSD-3-Clause
// Every figure and every statement of the papers that can be checked, with the question to the
// model that it answers.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/experiment/laboratory.hpp"

namespace via::sim {

enum class FigureKind : std::uint8_t {
    Printed,   ///< a number
    About,     ///< a number with "about", "nearly", or a round one
    AtLeast,   ///< a lower end
    Between,   ///< two ends
    Order,     ///< a statement such as "slightly ahead", as a ratio with one or two ends
    Unprinted  ///< the papers give none here; what the model says is there to be compared
};
[[nodiscard]] std::string_view kind_name(FigureKind kind) noexcept;

enum class FigureRole : std::uint8_t {
    Fitted,    ///< a parameter was chosen on it, or is it
    Predicted  ///< no parameter was
};
[[nodiscard]] std::string_view role_name(FigureRole role) noexcept;

struct Figure {
    static constexpr double no_end = std::numeric_limits<double>::infinity();

    std::string_view paper;  ///< "A", "C", "D", or "GM" for Myricom's own figures
    std::string what;
    std::string_view unit;  ///< empty: a ratio
    FigureKind kind = FigureKind::Printed;
    double low = 0;        ///< the paper's value, or the lower end
    double high = 0;       ///< the same value, or the upper end
    double tolerance = 0;  ///< percent beyond an end that still count as met
    FigureRole role = FigureRole::Predicted;
    std::string_view basis;  ///< what was fitted, or what the prediction follows from
    bool headline = false;   ///< one of those whose sensitivity is shown
    std::function<double(Laboratory&)> question;

    /// Percent above the upper end or (negative) below the lower one; 0 between them.
    [[nodiscard]] double error_percent(double model) const;
    [[nodiscard]] bool is_met(double model) const;
};

/// In the papers' order.
[[nodiscard]] const std::vector<Figure>& paper_figures();

/// What the papers print and this model does not say, and why.
struct UnmodelledFigure {
    std::string_view paper;
    std::string_view what;
    std::string_view value;
    std::string_view reason;
};
[[nodiscard]] const std::vector<UnmodelledFigure>& unmodelled_figures();

struct AnsweredFigure {
    const Figure* figure = nullptr;
    double model = 0;
    std::set<std::string> files;  ///< whose parameters the answer comes from

    [[nodiscard]] double error_percent() const { return figure->error_percent(model); }
    [[nodiscard]] bool is_met() const { return figure->is_met(model); }
};
/// Asks the model for all of them.
[[nodiscard]] base::Result<std::vector<AnsweredFigure>> answer_figures(Laboratory& laboratory);

}  // namespace via::sim
