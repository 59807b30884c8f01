// SPDX-License-Identifier: BSD-3-Clause
// Charts that stand in a page: SVG whose colours are the page's, with a legend and a table of the
// same numbers for who can not see it. For files there is chart.hpp, for the terminal plot.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plot.hpp"
#include "stream_record.hpp"

namespace via::tool {

enum class Scale : std::uint8_t {
    Linear,       ///< from 0
    Logarithmic,  ///< points that are not positive are left out
    Bytes         ///< logarithmic, with labels such as 4 KB
};

enum class LineStyle : std::uint8_t {
    Ours,   ///< thick
    Peer,   ///< thin, each with dashes of its own
    Limit,  ///< grey
    Dots    ///< no line
};

struct PageSeries {
    std::string name;
    LineStyle style = LineStyle::Peer;
    std::vector<PlotPoint> points;
};

struct PageChart {
    std::string title;
    std::string x_title;
    std::string y_title;
    Scale x = Scale::Bytes;
    Scale y = Scale::Logarithmic;
    std::vector<PageSeries> series;
    std::vector<TimeMark> marks;  ///< upright lines with words
};

/// The custom properties that charts use, for the style of the page: once for light, once for dark.
[[nodiscard]] std::string chart_colours(bool dark);

/// A figure with its caption, or nothing where no series has a point.
[[nodiscard]] std::string chart_figure(const PageChart& chart);

/// Single values beside a limit, small enough for a cell of a table: a dot each, the limit a line.
struct ValueStrip {
    std::vector<double> values;
    std::optional<double> limit;
    double band_low = 0;  ///< what is between the two is marked; equal: nothing
    double band_high = 0;
    std::string title;
};
[[nodiscard]] std::string value_strip(const ValueStrip& strip);

}  // namespace via::tool
