// SPDX-License-Identifier: BSD-3-Clause
#include "chart.hpp"

#include <fmt/format.h>

#include "result_files.hpp"

namespace via::tool {
namespace {

std::string common(const std::string& title, const std::string& y_title) {
    return fmt::format("set title {}\nset ylabel {}\nset grid\nset key noenhanced\n",
                       gnuplot_quoted(title), gnuplot_quoted(y_title));
}

/// The plot command twice: once for each kind of picture.
std::string drawn(const std::string& base_path, const std::string& plot) {
    return fmt::format(
        "set terminal svg size 800,500 noenhanced font \"sans,12\" background \"white\"\n"
        "set output {}\n{}"
        "set terminal pngcairo size 1000,625 noenhanced font \"sans,11\"\n"
        "set output {}\n{}",
        gnuplot_quoted(base_path + ".svg"), plot, gnuplot_quoted(base_path + ".png"), plot);
}

}  // namespace

std::string chart_script(const CurveChart& chart, const std::string& base_path) {
    std::string script = common(chart.title, chart.y_title);
    script += "set xlabel 'bytes'\nset logscale x 2\nset format x \"%.0b%B\"\n";
    script += chart.logarithmic ? "set logscale y\n" : "set yrange [0:*]\n";
    script += "set key top left\n";
    std::string plot;
    for (std::size_t index = 0; index < chart.curves.size(); ++index) {
        const PlotSeries& curve = chart.curves[index];
        script += fmt::format("$curve{} << end\n", index);
        for (const PlotPoint& point : curve.points)
            script += fmt::format("{:.0f} {:.6g}\n", point.x, point.y);
        script += "end\n";
        plot += fmt::format("{} $curve{} using 1:2 with linespoints lw 2 title {}",
                            index == 0 ? "plot" : ", \\\n    ", index, gnuplot_quoted(curve.name));
    }
    return script + drawn(base_path, plot + "\n");
}

std::string chart_script(const BarChart& chart, const std::string& base_path) {
    std::string script = common(chart.title, chart.y_title);
    script +=
        "set style data histograms\nset style histogram rowstacked\nset style fill solid 0.8 "
        "border -1\nset boxwidth 0.6\nset yrange [0:*]\nset xtics rotate by -20\n"
        "set key outside right reverse invert Left\n";
    script += "$bars << end\n";
    for (std::size_t bar = 0; bar < chart.bars.size(); ++bar) {
        script += "\"" + chart.bars[bar] + "\"";
        for (const BarPart& part : chart.parts)
            script += fmt::format(" {:.6g}", part.heights[bar]);
        script += "\n";
    }
    script += "end\n";
    std::string plot;
    for (std::size_t part = 0; part < chart.parts.size(); ++part)
        plot +=
            fmt::format("{} $bars using {}{} title {}", part == 0 ? "plot" : ", \\\n    ", part + 2,
                        part == 0 ? ":xtic(1)" : "", gnuplot_quoted(chart.parts[part].name));
    return script + drawn(base_path, plot + "\n");
}

base::Result<void> draw_script(const std::string& script, const std::string& base_path) {
    const std::string path = base_path + ".gnuplot";
    if (auto written = write_text_file(path, script); !written) return written;
    return run_gnuplot(path);
}

}  // namespace via::tool
