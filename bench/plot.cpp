// SPDX-License-Identifier: BSD-3-Clause
#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include "process.hpp"
#include "spread.hpp"

namespace via::bench {

namespace {

std::vector<const CurveResult*> drawn(const std::vector<CurveResult>& curves, Quantity quantity) {
    std::vector<const CurveResult*> result;
    for (const CurveResult& curve : curves) {
        if (curve.quantity == quantity && !curve.points.empty()) result.push_back(&curve);
    }
    return result;
}

/// In a gnuplot string in double quotes.
std::string gnuplot_quoted(std::string_view text) {
    std::string result = "\"";
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') result += '\\';
        result += letter;
    }
    return result + "\"";
}

}  // namespace

std::string plot_data(const std::vector<CurveResult>& curves, Quantity quantity) {
    const auto lines = drawn(curves, quantity);
    std::set<std::size_t> sizes;
    std::string text = "# bytes";
    for (const CurveResult* curve : lines) {
        text += fmt::format("\t{} ({})", curve->label, unit_of(quantity));
        for (const CurvePoint& point : curve->points)
            sizes.insert(point.bytes);
    }
    text += "\n";
    for (const std::size_t bytes : sizes) {
        text += std::to_string(bytes);
        for (const CurveResult* curve : lines) {
            const auto point = std::find_if(curve->points.begin(), curve->points.end(),
                                            [&](const auto& one) { return one.bytes == bytes; });
            text += point == curve->points.end()
                        ? "\t?"
                        : fmt::format("\t{:.6g}", spread_of(point->values).median);
        }
        text += "\n";
    }
    return text;
}

std::string plot_script(const std::vector<CurveResult>& curves, Quantity quantity,
                        const std::string& data_file, const std::string& image_file,
                        const std::string& machine) {
    const auto lines = drawn(curves, quantity);
    if (lines.empty()) return {};
    const bool latency = quantity == Quantity::OneWayMicroseconds;
    std::string text =
        "set terminal pngcairo size 1100,700 font \"sans,12\"\n"
        "set output " +
        gnuplot_quoted(image_file) +
        "\n"
        "set datafile missing \"?\"\n"
        "set datafile separator \"\\t\"\n"
        "set title " +
        gnuplot_quoted((latency ? "One-way latency inside a host: " : "Stream inside a host: ") +
                       machine) +
        " noenhanced\n"
        "set xlabel \"message size\"\n"
        "set ylabel " +
        gnuplot_quoted(latency ? "µs, median" : "GB/s") +
        "\n"
        "set logscale x 2\n"
        "set logscale y 10\n" +
        (latency ? "set yrange [0.05:]\n" : "") +
        "set format y \"%g\"\n"
        "set grid\n"
        "set key " +
        (latency ? "top left" : "bottom right") +
        " noenhanced\n"
        "set xtics (\"8 B\" 8, \"64 B\" 64, \"512 B\" 512, \"4 KB\" 4096, \"32 KB\" 32768, "
        "\"256 KB\" 262144, \"2 MB\" 2097152)\n"
        "plot ";
    for (std::size_t index = 0; index < lines.size(); ++index) {
        // Ours are thick, the bare limits dashed and grey.
        const std::string& label = lines[index]->label;
        const bool ours = label.starts_with("via");
        const bool limit = label.starts_with("bare") || label.starts_with("memcpy");
        const std::string style = limit  ? "lines dashtype 2 linewidth 2 linecolor rgb \"#777777\""
                                  : ours ? "linespoints linewidth 3 pointtype 7"
                                         : "linespoints linewidth 1.5 pointtype 6";
        if (index != 0) text += ", \\\n     ";
        text += fmt::format("{} using 1:(column({}){}) title {} with {}", gnuplot_quoted(data_file),
                            index + 2, latency ? "" : "/1e9", gnuplot_quoted(label), style);
    }
    return text + "\n";
}

base::Result<void> write_file(const std::string& path, const std::string& text) {
    const std::string temporary = path + ".new";
    {
        std::ofstream file(temporary, std::ios::trunc);
        file << text;
        file.flush();
        if (!file) return base::system_error(errno, "write " + temporary);
    }
    if (std::rename(temporary.c_str(), path.c_str()) != 0) {
        return base::system_error(errno, "write " + path);
    }
    return {};
}

base::Result<std::vector<std::string>> draw_plots(const std::vector<CurveResult>& curves,
                                                  const std::string& folder,
                                                  const std::string& machine) {
    std::vector<std::string> images;
    for (const auto& [name, quantity] : {std::pair{"latency", Quantity::OneWayMicroseconds},
                                         std::pair{"bandwidth", Quantity::BytesPerSecond}}) {
        const std::string stem = folder + "/" + name;
        const std::string script =
            plot_script(curves, quantity, stem + ".dat", stem + ".png", machine);
        if (script.empty()) continue;
        if (auto written = write_file(stem + ".dat", plot_data(curves, quantity)); !written) {
            return std::move(written).error();
        }
        if (auto written = write_file(stem + ".gp", script); !written) {
            return std::move(written).error();
        }
        if (find_program("gnuplot").empty()) {
            return {base::Code::NotFound,
                    fmt::format("no plots: install gnuplot-nox; the data is in {0}.dat and "
                                "the script in {0}.gp",
                                stem)};
        }
        Command command;
        command.arguments = {"gnuplot", stem + ".gp"};
        if (auto output = run(command, base::Deadline::after_milliseconds(30'000)); !output) {
            return std::move(output).error();
        }
        images.push_back(stem + ".png");
    }
    return images;
}

}  // namespace via::bench
