// SPDX-License-Identifier: BSD-3-Clause
// The papers' figures beside the model's, as a table, as JSON and as pictures in the papers' form.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "chart.hpp"
#include "sim/experiment/figures.hpp"
#include "sim/experiment/sensitivity.hpp"

namespace via::tool {

/// The paper's side of a figure: "76.2", "≈ 4", "≥ 240", "1500 to 2500".
[[nodiscard]] std::string paper_value(const sim::Figure& figure);
/// "met", "MISSED", or nothing where the paper prints no figure.
[[nodiscard]] std::string verdict(const sim::AnsweredFigure& answered);
/// How many of those that the papers print are not met.
[[nodiscard]] std::size_t count_missed(const std::vector<sim::AnsweredFigure>& answered);

[[nodiscard]] std::string draw_figures(const std::vector<sim::AnsweredFigure>& answered);
[[nodiscard]] std::string draw_unmodelled();
/// Those that move a figure by half a percent or more; of each open value the greatest anyway.
[[nodiscard]] std::string draw_influences(const std::vector<sim::Influence>& influences);

[[nodiscard]] nlohmann::json to_json(const std::vector<sim::AnsweredFigure>& answered);
[[nodiscard]] nlohmann::json to_json(const std::vector<sim::Influence>& influences);

struct NamedCurves {
    std::string name;  ///< of its files
    CurveChart chart;
};
struct NamedBars {
    std::string name;
    BarChart chart;
};
/// Bandwidth and one-way time against size, a curve for each system.
[[nodiscard]] std::vector<NamedCurves> paper_curves(sim::Laboratory& laboratory);
/// Where the time of a send goes.
[[nodiscard]] std::vector<NamedBars> paper_bars(sim::Laboratory& laboratory);

/// reproduction.json and the pictures. NotFound: there is no gnuplot, but all else is there.
[[nodiscard]] base::Result<void> write_reproduction(const nlohmann::json& report,
                                                    sim::Laboratory& laboratory,
                                                    const std::string& folder);

}  // namespace via::tool
