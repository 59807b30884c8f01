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

/// The curves of one group, which belong into one picture.
std::vector<CurveResult> of_group(const std::vector<CurveResult>& curves, Group group) {
    std::vector<CurveResult> result;
    std::copy_if(curves.begin(), curves.end(), std::back_inserter(result),
                 [group](const CurveResult& curve) { return curve.group == group; });
    return result;
}

std::string group_words(Group group) {
    switch (group) {
        case Group::InHost:
            return "inside a host";
        case Group::BetweenHosts:
            return "between hosts";
        case Group::Mpi:
            return "of MPI inside a host";
        case Group::Simulator:
            break;
    }
    return "simulated";
}

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

std::vector<CurveResult> as_messages(const std::vector<CurveResult>& curves) {
    std::vector<CurveResult> result;
    for (const CurveResult& curve : curves) {
        if (curve.quantity != Quantity::BytesPerSecond || curve.label.starts_with("memcpy"))
            continue;
        CurveResult& rate = result.emplace_back(curve);
        rate.quantity = Quantity::MessagesPerSecond;
        for (CurvePoint& point : rate.points)
            for (double& value : point.values)
                value /= static_cast<double>(point.bytes);
    }
    return result;
}

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
    const bool rate = quantity == Quantity::MessagesPerSecond;
    const std::string title = latency ? "One-way latency "
                              : rate  ? "Messages of a stream "
                                      : "Stream ";
    std::string text =
        "set terminal pngcairo size 1100,700 font \"sans,12\"\n"
        "set output " +
        gnuplot_quoted(image_file) +
        "\n"
        "set datafile missing \"?\"\n"
        "set datafile separator \"\\t\"\n"
        "set title " +
        gnuplot_quoted(title + group_words(lines.front()->group) + ": " + machine) +
        " noenhanced\n"
        "set xlabel \"message size\"\n"
        "set ylabel " +
        gnuplot_quoted(latency ? "µs, median"
                       : rate  ? "million/s"
                               : "GB/s") +
        "\n"
        "set logscale x 2\n"
        "set logscale y 10\n" +
        (latency ? "set yrange [0.05:]\n" : "") +
        "set format y \"%g\"\n"
        "set grid\n"
        "set key " +
        (latency ? "top left"
         : rate  ? "bottom left"
                 : "bottom right") +
        " noenhanced\n"
        "set xtics (\"8 B\" 8, \"64 B\" 64, \"512 B\" 512, \"4 KB\" 4096, \"32 KB\" 32768, "
        "\"256 KB\" 262144, \"2 MB\" 2097152)\n"
        "plot ";
    for (std::size_t index = 0; index < lines.size(); ++index) {
        // Ours are thick, the bare limits dashed and grey.
        const std::string& label = lines[index]->label;
        const bool ours = label.starts_with("via") || label.ends_with("over via");
        const bool limit = label.starts_with("bare") || label.starts_with("memcpy");
        const std::string style = limit  ? "lines dashtype 2 linewidth 2 linecolor rgb \"#777777\""
                                  : ours ? "linespoints linewidth 3 pointtype 7"
                                         : "linespoints linewidth 1.5 pointtype 6";
        if (index != 0) text += ", \\\n     ";
        text += fmt::format("{} using 1:(column({}){}) title {} with {}", gnuplot_quoted(data_file),
                            index + 2,
                            latency ? ""
                            : rate  ? "/1e6"
                                    : "/1e9",
                            gnuplot_quoted(label), style);
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
    const auto draw = [&](const std::string& stem, const std::vector<CurveResult>& lines,
                          Quantity quantity) -> base::Result<void> {
        const std::string script =
            plot_script(lines, quantity, stem + ".dat", stem + ".png", machine);
        if (script.empty()) return {};
        if (auto written = write_file(stem + ".dat", plot_data(lines, quantity)); !written)
            return written;
        if (auto written = write_file(stem + ".gp", script); !written) return written;
        if (find_program("gnuplot").empty()) {
            return {base::Code::NotFound,
                    fmt::format("no pictures: install gnuplot-nox; the data is in {0}.dat and "
                                "the script in {0}.gp",
                                stem)};
        }
        Command command;
        command.arguments = {"gnuplot", stem + ".gp"};
        if (auto output = run(command, base::Deadline::after_milliseconds(30'000)); !output)
            return std::move(output).error();
        images.push_back(stem + ".png");
        return {};
    };
    for (const Group group : all_groups) {
        const std::vector<CurveResult> lines = of_group(curves, group);
        const std::string stem =
            folder + "/" +
            (group == Group::InHost ? std::string() : std::string(group_name(group)) + "-");
        if (auto done = draw(stem + "latency", lines, Quantity::OneWayMicroseconds); !done)
            return std::move(done).error();
        if (auto done = draw(stem + "bandwidth", lines, Quantity::BytesPerSecond); !done)
            return std::move(done).error();
        if (auto done = draw(stem + "rate", as_messages(lines), Quantity::MessagesPerSecond); !done)
            return std::move(done).error();
    }
    return images;
}

}  // namespace via::bench
