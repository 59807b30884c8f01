// SPDX-License-Identifier: BSD-3-Clause
// How a stream went over time: what arrived when, and the longest time in which nothing did.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace via::tool {

/// A count that only grows, at some moments.
struct GrowthSample {
    double seconds = 0;
    double bytes = 0;
};

struct Stall {
    double begin = 0;
    double seconds = 0;
};

/// The longest time between two samples that differ; none: zero.
[[nodiscard]] Stall longest_stall(const std::vector<GrowthSample>& samples);

/// Bytes a second in each interval of `width` seconds from 0 to `end`; between two samples the
/// count grows evenly.
[[nodiscard]] std::vector<double> rates_over_time(const std::vector<GrowthSample>& samples,
                                                  double width, double end);

struct TimeCurve {
    std::string name;
    std::vector<double> values;  ///< one for each interval
};

struct TimeMark {
    double seconds = 0;
    std::string name;
};

struct TimePlotOptions {
    std::string y_title;
    double width = 0.1;  ///< seconds of an interval
    std::size_t columns = 72;
    std::size_t rows = 11;  ///< every fifth is labelled
    bool colour = false;
};

/// Curves over time from zero upwards, in braille dots, with the marks below the axis.
[[nodiscard]] std::string draw_over_time(const std::vector<TimeCurve>& curves,
                                         const std::vector<TimeMark>& marks,
                                         const TimePlotOptions& options);

/// A script for gnuplot that draws the same into `base_path`.svg and .png.
[[nodiscard]] std::string time_chart_script(const std::vector<TimeCurve>& curves,
                                            const std::vector<TimeMark>& marks,
                                            const TimePlotOptions& options, std::string_view title,
                                            const std::string& base_path);

}  // namespace via::tool
