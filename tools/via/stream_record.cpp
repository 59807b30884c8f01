// SPDX-License-Identifier: BSD-3-Clause
#include "stream_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

constexpr std::size_t label_columns = 8;

/// 1, 2 or 5 times a power of ten, not below the value.
double round_top(double value) {
    if (!(value > 0)) return 1;
    const double power = std::pow(10, std::floor(std::log10(value)));
    for (const double step : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5})
        if (step * power >= value) return step * power;
    return 10 * power;
}

/// Puts `text` into the line at a column; false: there is no room left.
bool place(std::string& line, std::size_t column, std::string_view text) {
    const std::size_t width = screen_width(line);
    if (width > 0 && column < width + 1) return false;
    line += std::string(column - width, ' ');
    line += text;
    return true;
}

}  // namespace

Stall longest_stall(const std::vector<GrowthSample>& samples) {
    Stall longest;
    if (samples.empty()) return longest;
    GrowthSample last = samples.front();
    for (const GrowthSample& sample : samples) {
        if (!(sample.bytes > last.bytes)) continue;
        if (sample.seconds - last.seconds > longest.seconds)
            longest = {last.seconds, sample.seconds - last.seconds};
        last = sample;
    }
    return longest;
}

std::vector<double> rates_over_time(const std::vector<GrowthSample>& samples, double width,
                                    double end) {
    if (!(width > 0) || !(end > 0)) return {};
    std::vector<double> rates(static_cast<std::size_t>(std::ceil(end / width - 1e-9)), 0.0);
    for (std::size_t i = 1; i < samples.size(); ++i) {
        const GrowthSample& from = samples[i - 1];
        const GrowthSample& to = samples[i];
        const double span = to.seconds - from.seconds;
        if (!(span > 0) || !(to.bytes > from.bytes)) continue;
        const double rate = (to.bytes - from.bytes) / span;
        for (auto bin = static_cast<std::size_t>(std::max(from.seconds, 0.0) / width);
             bin < rates.size(); ++bin) {
            const double begin = static_cast<double>(bin) * width;
            if (begin >= to.seconds) break;
            const double common =
                std::min(to.seconds, begin + width) - std::max(from.seconds, begin);
            rates[bin] += rate * std::max(common, 0.0) / width;
        }
    }
    return rates;
}

std::string draw_over_time(const std::vector<TimeCurve>& curves, const std::vector<TimeMark>& marks,
                           const TimePlotOptions& options) {
    double highest = 0;
    std::size_t intervals = 0;
    for (const TimeCurve& curve : curves) {
        intervals = std::max(intervals, curve.values.size());
        for (const double value : curve.values)
            highest = std::max(highest, value);
    }
    if (intervals == 0) return "nothing to show\n";
    const double top = round_top(highest);
    const double end = static_cast<double>(intervals) * options.width;
    BrailleCanvas canvas(options.columns, options.rows);
    const auto across = [&](double seconds) {
        return static_cast<std::ptrdiff_t>(
            std::lround(seconds / end * static_cast<double>(canvas.dot_width() - 1)));
    };
    const auto up = [&](double value) {
        return static_cast<std::ptrdiff_t>(
            std::lround((1 - value / top) * static_cast<double>(canvas.dot_height() - 1)));
    };
    for (std::size_t number = 0; number < curves.size(); ++number) {
        const auto ink = static_cast<std::uint8_t>(1 + number);
        const std::vector<double>& values = curves[number].values;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double middle = (static_cast<double>(i) + 0.5) * options.width;
            const std::size_t next = std::min(i + 1, values.size() - 1);
            const double further = (static_cast<double>(next) + 0.5) * options.width;
            canvas.line(across(middle), up(values[i]), across(further), up(values[next]), ink);
        }
        // A letter for each curve, where it is highest.
        if (values.empty()) continue;
        const auto peak = std::max_element(values.begin(), values.end());
        const double at = (static_cast<double>(peak - values.begin()) + 0.5) * options.width;
        canvas.mark(across(at), up(*peak), std::string(1, static_cast<char>('a' + number)), ink);
    }
    std::string text = fmt::format("{:>{}} {}\n", "", label_columns, options.y_title);
    for (std::size_t row = 0; row < options.rows; ++row) {
        const bool labelled = row % 5 == 0;
        const double value =
            top * (1 - static_cast<double>(row) / static_cast<double>(options.rows - 1));
        text += fmt::format("{:>{}} │{}\n", labelled ? fmt::format("{:.0f}", value) : "",
                            label_columns, canvas.row(row, options.colour));
    }
    std::string axis;
    for (std::size_t column = 0; column < options.columns; ++column)
        axis += "─";
    text += fmt::format("{:>{}} └{}\n", "", label_columns, axis);
    std::string seconds;
    const double step = end <= 12 ? 1 : std::ceil(end / 12);
    for (double second = 0; second <= end; second += step)
        (void)place(seconds, label_columns + 2 + static_cast<std::size_t>(across(second)) / 2,
                    fmt::format("{:g}", second));
    text += seconds + " s\n";
    std::vector<std::string> below;
    for (const TimeMark& mark : marks) {
        if (mark.seconds < 0 || mark.seconds > end) continue;
        const std::size_t column =
            label_columns + 2 + static_cast<std::size_t>(across(mark.seconds)) / 2;
        const std::string words = "↑ " + mark.name;
        const bool fits = std::any_of(below.begin(), below.end(), [&](std::string& line) {
            return place(line, column, words);
        });
        if (!fits) (void)place(below.emplace_back(), column, words);
    }
    for (const std::string& line : below)
        text += line + "\n";
    for (std::size_t number = 0; number < curves.size(); ++number)
        text += fmt::format("{}{} {}", number == 0 ? "  " : ",  ", static_cast<char>('a' + number),
                            curves[number].name);
    return text + "\n";
}

std::string time_chart_script(const std::vector<TimeCurve>& curves,
                              const std::vector<TimeMark>& marks, const TimePlotOptions& options,
                              std::string_view title, const std::string& base_path) {
    std::string script = fmt::format(
        "set title '{}'\nset xlabel 'seconds'\nset ylabel '{}'\nset yrange [0:*]\nset grid\n"
        "set key below\n",
        title, options.y_title);
    for (const TimeMark& mark : marks)
        script += fmt::format(
            "set arrow from {0:g}, graph 0 to {0:g}, graph 1 nohead dashtype 2\n"
            "set label '{1}' at {0:g}, graph 0.97 offset 0.5,0\n",
            mark.seconds, mark.name);
    for (std::size_t number = 0; number < curves.size(); ++number) {
        script += fmt::format("$curve{} << end\n", number);
        for (std::size_t i = 0; i < curves[number].values.size(); ++i)
            script += fmt::format("{:.4f} {:.2f}\n", (static_cast<double>(i) + 0.5) * options.width,
                                  curves[number].values[i]);
        script += "end\n";
    }
    std::string plot;
    for (std::size_t number = 0; number < curves.size(); ++number)
        plot += fmt::format("{}$curve{} with lines linewidth 2 title '{}'",
                            number == 0 ? "plot " : ", ", number, curves[number].name);
    for (const char* terminal : {"svg", "png"})
        script += fmt::format("set terminal {0} size 900,420\nset output '{1}.{0}'\n{2}\n",
                              terminal, base_path, plot);
    return script;
}

}  // namespace via::tool
