// SPDX-License-Identifier: BSD-3-Clause
#include "demo_report.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gnuplot.hpp"
#include "plot.hpp"
#include "size_list.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

std::string number(double value, int digits) {
    return value > 0 ? fmt::format("{:.{}f}", value, digits) : "-";
}

/// Small times need more digits than large ones.
std::string microseconds(double value) {
    return number(value, value < 100 ? 3 : 1);
}

PlotSeries series(const DemoReport& report, const char* name, const char* symbol,
                  double DemoRow::*member) {
    PlotSeries one{name, symbol, {}};
    for (const auto& [bytes, row] : report.rows)
        one.points.push_back({static_cast<double>(bytes), row.*member});
    return one;
}

}  // namespace

void add_result(DemoReport& report, const nlohmann::json& result) {
    const bool kmem = result.value("memory", "") == "kmem";
    DemoRow& row = report.rows[result.value("bytes", std::uint64_t{0})];
    if (result.contains("one_way_us"))
        (kmem ? row.kmem_us : row.heap_us) = result["one_way_us"].get<double>();
    if (result.contains("mb_per_s"))
        (kmem ? row.kmem_mb_per_s : row.heap_mb_per_s) = result["mb_per_s"].get<double>();
}

std::string draw_table(const DemoReport& report) {
    TextTable table;
    for (const char* title : {"bytes", "µs heap", "µs kmem", "µs bare", "x bare", "MB/s heap",
                              "MB/s kmem", "MB/s memcpy", "kmem/memcpy"})
        table.add_column(title);
    for (const auto& [bytes, row] : report.rows) {
        const double best = row.kmem_us > 0 ? std::min(row.heap_us, row.kmem_us) : row.heap_us;
        table.add_row(
            {format_size(bytes), microseconds(row.heap_us), microseconds(row.kmem_us),
             microseconds(row.bare_us), number(row.bare_us > 0 ? best / row.bare_us : 0, 2),
             number(row.heap_mb_per_s, 1), number(row.kmem_mb_per_s, 1),
             number(row.copy_mb_per_s, 1),
             number(row.copy_mb_per_s > 0 ? row.kmem_mb_per_s / row.copy_mb_per_s : 0, 2)});
    }
    return table.draw();
}

std::string draw_plots(const DemoReport& report, bool colour, std::size_t columns) {
    PlotOptions options;
    options.colour = colour;
    options.columns = columns;
    options.x_title = "bytes";
    options.title = "one-way time, µs";
    std::string text = draw_plot({series(report, "heap", "o", &DemoRow::heap_us),
                                  series(report, "kmem", "x", &DemoRow::kmem_us),
                                  series(report, "bare machine", "", &DemoRow::bare_us)},
                                 options);
    options.title = "stream, MB/s";
    text += "\n" + draw_plot({series(report, "heap", "o", &DemoRow::heap_mb_per_s),
                              series(report, "kmem", "x", &DemoRow::kmem_mb_per_s),
                              series(report, "memcpy by one core", "", &DemoRow::copy_mb_per_s)},
                             options);
    return text;
}

nlohmann::json to_json(const DemoReport& report) {
    auto rows = nlohmann::json::array();
    for (const auto& [bytes, row] : report.rows)
        rows.push_back({{"bytes", bytes},
                        {"heap_one_way_us", row.heap_us},
                        {"kmem_one_way_us", row.kmem_us},
                        {"bare_one_way_us", row.bare_us},
                        {"heap_mb_per_s", row.heap_mb_per_s},
                        {"kmem_mb_per_s", row.kmem_mb_per_s},
                        {"memcpy_mb_per_s", row.copy_mb_per_s}});
    return {{"cache_line_one_way_us", report.line_us}, {"sizes", rows}};
}

std::string to_data_file(const DemoReport& report) {
    std::string text =
        "# bytes heap_us kmem_us bare_us heap_mb_per_s kmem_mb_per_s memcpy_mb_per_s\n";
    // gnuplot leaves out what is no number.
    const auto value = [](double one) { return one > 0 ? fmt::format("{:.6g}", one) : "NaN"; };
    for (const auto& [bytes, row] : report.rows)
        text += fmt::format("{} {} {} {} {} {} {}\n", bytes, value(row.heap_us), value(row.kmem_us),
                            value(row.bare_us), value(row.heap_mb_per_s), value(row.kmem_mb_per_s),
                            value(row.copy_mb_per_s));
    return text;
}

std::string gnuplot_script(const std::string& data_file, const std::string& picture) {
    return fmt::format(R"(set terminal pngcairo size 1400,600 font "sans,11"
set output "{1}"
set datafile missing "NaN"
set logscale xy
set format x "%.0b%B"
set xlabel "bytes"
set grid
set key top left
set multiplot layout 1,2
set ylabel "one-way time, µs"
plot "{0}" using 1:2 with linespoints lw 2 title "heap", \
     "{0}" using 1:3 with linespoints lw 2 title "kmem", \
     "{0}" using 1:4 with lines lw 2 dashtype 2 lc rgb "gray40" title "bare machine"
set ylabel "stream, MB/s"
set key bottom right
plot "{0}" using 1:5 with linespoints lw 2 title "heap", \
     "{0}" using 1:6 with linespoints lw 2 title "kmem", \
     "{0}" using 1:7 with lines lw 2 dashtype 2 lc rgb "gray40" title "memcpy by one core"
unset multiplot
)",
                       data_file, picture);
}

base::Result<void> write_files(const DemoReport& report, const nlohmann::json& information,
                               const std::string& folder) {
    if (auto made = make_folder(folder); !made) return made;
    nlohmann::json all = to_json(report);
    all["machine"] = information["machine"];
    all["version"] = information["version"];
    const std::string base_path = (std::filesystem::path(folder) / "demo").string();
    if (auto written = write_file(base_path + ".json", all.dump(2) + "\n"); !written)
        return written;
    if (auto written = write_file(base_path + ".dat", to_data_file(report)); !written)
        return written;
    if (auto written = write_file(base_path + ".gnuplot",
                                  gnuplot_script(base_path + ".dat", base_path + ".png"));
        !written)
        return written;
    return run_gnuplot(base_path + ".gnuplot");
}

}  // namespace via::tool
