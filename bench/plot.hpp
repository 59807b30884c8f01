// SPDX-License-Identifier: BSD-3-Clause
// Plots of the curves, drawn by gnuplot from files that stay beside them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "runner.hpp"

namespace via::bench {

/// Streams as messages a second instead of bytes. What memory could copy are no messages.
[[nodiscard]] std::vector<CurveResult> as_messages(const std::vector<CurveResult>& curves);

/// Columns for gnuplot: the size, then the median of each curve of that quantity ("?" where it has
/// none). The first line names them.
[[nodiscard]] std::string plot_data(const std::vector<CurveResult>& curves, Quantity quantity);

/// The gnuplot script that draws `data_file` into `image_file`. Empty if there is no such curve.
[[nodiscard]] std::string plot_script(const std::vector<CurveResult>& curves, Quantity quantity,
                                      const std::string& data_file, const std::string& image_file,
                                      const std::string& machine);

/// Writes NAME.dat, NAME.gp and NAME.png for latency, bandwidth and rate, of other groups than
/// those inside a host with the group's name in front; returns the images' paths.
[[nodiscard]] base::Result<std::vector<std::string>> draw_plots(
    const std::vector<CurveResult>& curves, const std::string& folder, const std::string& machine);

/// Replaces the file as a whole.
[[nodiscard]] base::Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace via::bench
