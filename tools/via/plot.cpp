// SPDX-License-Identifier: BSD-3-Clause
#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "size_list.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

// Ink 1.. of the series; 0 is the terminal's own colour.
constexpr std::array<const char*, 7> terminal_colours{
    "\x1b[0m", "\x1b[36m", "\x1b[33m", "\x1b[90m", "\x1b[35m", "\x1b[32m", "\x1b[31m"};

constexpr const char* meeting_symbol = "*";

std::uint8_t ink_of(std::size_t series) {
    return static_cast<std::uint8_t>(1 + series % (terminal_colours.size() - 1));
}

/// U+2800 plus a bit for each dot.
std::string braille(std::uint8_t dots) {
    return {static_cast<char>(0xE2), static_cast<char>(0xA0 | dots >> 6),
            static_cast<char>(0x80 | (dots & 0x3F))};
}

/// One axis: a logarithmic scale from the lowest to the highest value on it.
class Axis {
  public:
    void include(double value) {
        lowest_ = std::min(lowest_, value);
        highest_ = std::max(highest_, value);
    }
    [[nodiscard]] bool empty() const { return lowest_ > highest_; }
    void finish() {
        // A single value still needs a scale around it.
        if (highest_ <= lowest_) {
            lowest_ /= 2;
            highest_ *= 2;
        }
    }
    [[nodiscard]] double place(double value) const {
        return std::log(value / lowest_) / std::log(highest_ / lowest_);
    }
    [[nodiscard]] double lowest() const { return lowest_; }
    [[nodiscard]] double highest() const { return highest_; }

  private:
    double lowest_ = std::numeric_limits<double>::infinity();
    double highest_ = -std::numeric_limits<double>::infinity();
};

bool drawable(const PlotPoint& point) {
    return std::isfinite(point.x) && std::isfinite(point.y) && point.x > 0 && point.y > 0;
}

std::ptrdiff_t dot(double place, std::size_t dots) {
    return std::lround(place * static_cast<double>(dots - 1));
}

std::string axis_label(double value) {
    if (value >= 1e5) return fmt::format("{:.0e}", value);
    if (value >= 1) return fmt::format("{:.0f}", value);
    return fmt::format("{:g}", value);
}

/// 1, 2 and 5 times the powers of ten, or the powers alone if those are many.
std::vector<double> tick_values(const Axis& axis) {
    const double decades = std::log10(axis.highest() / axis.lowest());
    std::vector<double> ticks;
    const int first = static_cast<int>(std::floor(std::log10(axis.lowest())));
    const int last = static_cast<int>(std::ceil(std::log10(axis.highest())));
    for (int exponent = first; exponent <= last; ++exponent) {
        for (const double digit : {1.0, 2.0, 5.0}) {
            if (digit > 1 && decades > 3) continue;
            const double value = digit * std::pow(10, exponent);
            // The ends themselves count, whatever the logarithm made of them.
            if (value >= axis.lowest() * 0.999 && value <= axis.highest() * 1.001)
                ticks.push_back(value);
        }
    }
    return ticks;
}

std::vector<double> byte_ticks(const Axis& axis) {
    std::vector<double> ticks;
    for (double value = 1; value <= axis.highest() * 1.001; value *= 2)
        if (value >= axis.lowest() * 0.999) ticks.push_back(value);
    return ticks;
}

struct XLabel {
    std::size_t column = 0;  ///< of its tick
    std::size_t start = 0;
    std::string text;
};

/// Every `step`th tick, or nothing if two labels would touch.
std::vector<XLabel> labels_at_step(const std::vector<double>& ticks, std::size_t step,
                                   const Axis& axis, const PlotOptions& options) {
    std::vector<XLabel> labels;
    std::size_t next_free = 0;
    for (std::size_t index = 0; index < ticks.size(); index += step) {
        XLabel label;
        label.column = static_cast<std::size_t>(dot(axis.place(ticks[index]), options.columns));
        label.text = options.x_is_bytes ? format_size(static_cast<std::uint64_t>(ticks[index]))
                                        : axis_label(ticks[index]);
        const std::size_t half = label.text.size() / 2;
        label.start = label.column >= half ? label.column - half : 0;
        if (label.start < next_free) return {};
        next_free = label.start + label.text.size() + 2;
        labels.push_back(std::move(label));
    }
    return labels;
}

/// The axis under the plot and the line of labels under that.
std::pair<std::string, std::string> draw_x_axis(const Axis& axis, const PlotOptions& options) {
    const std::vector<double> ticks = options.x_is_bytes ? byte_ticks(axis) : tick_values(axis);
    std::vector<XLabel> labels;
    for (std::size_t step = 1; labels.empty() && step <= ticks.size(); ++step)
        labels = labels_at_step(ticks, step, axis, options);
    std::vector<bool> has_tick(options.columns, false);
    std::string words;
    for (const XLabel& label : labels) {
        words.resize(label.start, ' ');
        words += label.text;
        has_tick[label.column] = true;
    }
    std::string line;
    for (const bool tick : has_tick)
        line += tick ? "┬" : "─";
    return {line, words};
}

/// A label for each row that has a tick; powers of ten come first where rows are few.
std::vector<std::string> draw_y_labels(const Axis& axis, const PlotOptions& options) {
    std::vector<std::string> labels(options.rows);
    const auto write = [&](bool powers) {
        for (const double value : tick_values(axis)) {
            const double exponent = std::log10(value);
            if ((std::abs(exponent - std::round(exponent)) < 1e-9) != powers) continue;
            const auto from_bottom =
                static_cast<std::size_t>(dot(axis.place(value), options.rows * 4)) / 4;
            std::string& label = labels[options.rows - 1 - from_bottom];
            if (label.empty()) label = axis_label(value);
        }
    };
    write(true);
    write(false);
    return labels;
}

}  // namespace

BrailleCanvas::BrailleCanvas(std::size_t columns, std::size_t rows)
    : columns_(columns), rows_(rows), cells_(columns * rows) {}

BrailleCanvas::Cell* BrailleCanvas::cell_at(std::ptrdiff_t x, std::ptrdiff_t y) {
    if (x < 0 || y < 0 || x >= static_cast<std::ptrdiff_t>(dot_width()) ||
        y >= static_cast<std::ptrdiff_t>(dot_height()))
        return nullptr;
    return &cells_[static_cast<std::size_t>(y) / 4 * columns_ + static_cast<std::size_t>(x) / 2];
}

void BrailleCanvas::set(std::ptrdiff_t x, std::ptrdiff_t y, std::uint8_t ink) {
    // Unicode numbers the dots down the columns, but the lowest row came later.
    static constexpr std::uint8_t bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell* cell = cell_at(x, y);
    if (cell == nullptr) return;
    cell->dots = static_cast<std::uint8_t>(cell->dots | bits[y % 4][x % 2]);
    if (cell->symbol.empty()) cell->ink = ink;
}

void BrailleCanvas::line(std::ptrdiff_t x0, std::ptrdiff_t y0, std::ptrdiff_t x1, std::ptrdiff_t y1,
                         std::uint8_t ink) {
    const std::ptrdiff_t steps =
        std::max({std::abs(x1 - x0), std::abs(y1 - y0), std::ptrdiff_t{1}});
    for (std::ptrdiff_t step = 0; step <= steps; ++step) {
        const double part = static_cast<double>(step) / static_cast<double>(steps);
        set(x0 + std::lround(part * static_cast<double>(x1 - x0)),
            y0 + std::lround(part * static_cast<double>(y1 - y0)), ink);
    }
}

bool BrailleCanvas::mark(std::ptrdiff_t x, std::ptrdiff_t y, std::string symbol, std::uint8_t ink) {
    Cell* cell = cell_at(x, y);
    if (cell == nullptr) return false;
    const bool meeting = !cell->symbol.empty() && cell->symbol != symbol;
    cell->symbol = meeting ? meeting_symbol : std::move(symbol);
    cell->ink = meeting ? 0 : ink;
    return meeting;
}

std::string BrailleCanvas::row(std::size_t index, bool colour) const {
    std::string text;
    std::uint8_t ink = 0;
    for (std::size_t column = 0; column < columns_; ++column) {
        const Cell& cell = cells_[index * columns_ + column];
        const bool blank = cell.symbol.empty() && cell.dots == 0;
        if (colour && !blank && cell.ink != ink) {
            ink = cell.ink;
            text += terminal_colours[ink % terminal_colours.size()];
        }
        if (!cell.symbol.empty())
            text += cell.symbol;
        else
            text += blank ? std::string(" ") : braille(cell.dots);
    }
    if (ink != 0) text += terminal_colours[0];
    return text;
}

std::string draw_plot(const std::vector<PlotSeries>& series, const PlotOptions& options) {
    Axis x_axis;
    Axis y_axis;
    for (const PlotSeries& one : series) {
        for (const PlotPoint& point : one.points) {
            if (!drawable(point)) continue;
            x_axis.include(point.x);
            y_axis.include(point.y);
        }
    }
    if (x_axis.empty() || options.columns < 2 || options.rows < 2) return {};
    x_axis.finish();
    y_axis.finish();

    BrailleCanvas canvas(options.columns, options.rows);
    const auto x_dot = [&](double x) { return dot(x_axis.place(x), canvas.dot_width()); };
    const auto y_dot = [&](double y) {
        return static_cast<std::ptrdiff_t>(canvas.dot_height()) - 1 -
               dot(y_axis.place(y), canvas.dot_height());
    };
    for (std::size_t index = 0; index < series.size(); ++index) {
        const PlotPoint* previous = nullptr;
        for (const PlotPoint& point : series[index].points) {
            if (!drawable(point)) continue;
            const PlotPoint& from = previous != nullptr ? *previous : point;
            canvas.line(x_dot(from.x), y_dot(from.y), x_dot(point.x), y_dot(point.y),
                        ink_of(index));
            previous = &point;
        }
    }
    // Symbols last, so that no line hides a measured point.
    bool some_meet = false;
    for (std::size_t index = 0; index < series.size(); ++index) {
        if (series[index].symbol.empty()) continue;
        for (const PlotPoint& point : series[index].points)
            if (drawable(point) &&
                canvas.mark(x_dot(point.x), y_dot(point.y), series[index].symbol, ink_of(index)))
                some_meet = true;
    }

    const std::vector<std::string> y_labels = draw_y_labels(y_axis, options);
    std::size_t label_width = 0;
    for (const std::string& label : y_labels)
        label_width = std::max(label_width, label.size());

    std::string text = "  " + options.title + "\n";
    for (std::size_t row = 0; row < options.rows; ++row)
        text += fmt::format("  {:>{}} {}{}\n", y_labels[row], label_width,
                            y_labels[row].empty() ? "│" : "┤", canvas.row(row, options.colour));
    const auto [x_line, x_words] = draw_x_axis(x_axis, options);
    text += fmt::format("  {:>{}} └{}\n", "", label_width, x_line);
    text += fmt::format("  {:>{}}  {}  {}\n", "", label_width, x_words, options.x_title);
    text += "  ";
    for (std::size_t index = 0; index < series.size(); ++index) {
        const std::string symbol = series[index].symbol.empty() ? "─" : series[index].symbol;
        if (options.colour)
            text += fmt::format("  {}{}{} {}", terminal_colours[ink_of(index)], symbol,
                                terminal_colours[0], series[index].name);
        else
            text += fmt::format("  {} {}", symbol, series[index].name);
    }
    if (some_meet) text += fmt::format("  {} several", meeting_symbol);
    return text + "\n";
}

}  // namespace via::tool
