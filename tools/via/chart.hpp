// SPDX-License-Identifier: BSD-3-Clause
// Charts for files, drawn by gnuplot as SVG and PNG: curves over message sizes, and stacked bars.
// For the terminal there is plot.hpp.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "plot.hpp"

namespace via::tool {

struct CurveChart {
    std::string title;
    std::string y_title;
    std::vector<PlotSeries> curves;  ///< over bytes
    bool logarithmic = false;        ///< also upwards
};

/// A colour of stacked bars: how high it is in each of them.
struct BarPart {
    std::string name;
    std::vector<double> heights;
};
struct BarChart {
    std::string title;
    std::string y_title;
    std::vector<std::string> bars;
    std::vector<BarPart> parts;  ///< the lowest first
};

/// Whole scripts with their data; they draw `base_path`.svg and `base_path`.png.
[[nodiscard]] std::string chart_script(const CurveChart& chart, const std::string& base_path);
[[nodiscard]] std::string chart_script(const BarChart& chart, const std::string& base_path);

/// Leaves `base_path`.gnuplot behind and runs it. NotFound: there is no gnuplot.
[[nodiscard]] base::Result<void> draw_script(const std::string& script,
                                             const std::string& base_path);

}  // namespace via::tool
