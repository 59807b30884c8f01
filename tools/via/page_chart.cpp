// SPDX-License-Identifier: BSD-3-Clause
#include "page_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "drawing.hpp"
#include "quantity.hpp"

namespace via::tool {
namespace {

constexpr double chart_width = 600;
constexpr double chart_height = 360;
constexpr double left_edge = 66;
constexpr double right_edge = 584;
constexpr double top_edge = 26;
constexpr double bottom_edge = 304;
constexpr double word_size = 14.5;

constexpr const char* faint = "var(--faint)";
constexpr const char* grey = "var(--grey)";

/// Values come from files that anybody may have written; with greater ones sums would overflow.
constexpr double beyond_all = 1e100;
bool is_drawable(double value) {
    return std::abs(value) < beyond_all;
}

struct SeriesColour {
    const char* light;
    const char* dark;
};
/// Told apart by most eyes, and dark or light enough on either ground.
constexpr std::array<SeriesColour, 8> series_colours{{{"#0b5cad", "#6cb6ff"},
                                                      {"#b3450a", "#ffa657"},
                                                      {"#1a7f4b", "#56d364"},
                                                      {"#8e3a9d", "#d2a8ff"},
                                                      {"#a31d3f", "#ff7b9c"},
                                                      {"#6b5900", "#e3c74b"},
                                                      {"#00757d", "#4fd1d9"},
                                                      {"#4b4f57", "#c0c6cf"}}};
/// So that colour is not all that tells curves apart.
constexpr std::array<const char*, 5> series_dashes{"", "7 3", "2 3", "9 3 2 3", "4 2"};

std::string series_colour(std::size_t index) {
    return fmt::format("var(--c{})", index % series_colours.size());
}

struct SeriesLook {
    std::string colour;
    double width = 1.6;
    std::string dashes;
    bool line = true;
    bool dots = true;
};

SeriesLook look_of(const PageSeries& series, std::size_t index) {
    switch (series.style) {
        case LineStyle::Ours:
            return {series_colour(index), 3, index == 0 ? "" : series_dashes[index % 2], true,
                    true};
        case LineStyle::Limit:
            return {grey, 2, "5 4", true, false};
        case LineStyle::Dots:
            return {series_colour(index), 0, "", false, true};
        case LineStyle::Peer:
            break;
    }
    return {series_colour(index), 1.6, series_dashes[index % series_dashes.size()], true, true};
}

/// Where values of an axis lie, from 0 to 1.
class PageAxis {
  public:
    explicit PageAxis(Scale scale) : scale_(scale) {}

    [[nodiscard]] bool has(double value) const {
        switch (scale_) {
            case Scale::Linear:
                return is_drawable(value);
            case Scale::Logarithmic:
                return is_drawable(value) && value > 1 / beyond_all;
            case Scale::Bytes:
                break;
        }
        return value >= 1 && value < 1e18;
    }
    void include(double value) {
        low_ = std::min(low_, value);
        high_ = std::max(high_, value);
    }
    void finish() {
        if (scale_ == Scale::Linear) {
            low_ = std::min(low_, 0.0);
            if (!(high_ > low_)) high_ = low_ + 1;
            high_ += (high_ - low_) * 0.05;
            return;
        }
        if (!(high_ > low_)) {
            low_ /= 2;
            high_ *= 2;
        }
        if (scale_ == Scale::Logarithmic) {
            low_ /= 1.15;
            high_ *= 1.15;
        }
    }
    [[nodiscard]] double place(double value) const {
        if (scale_ == Scale::Linear) return (value - low_) / (high_ - low_);
        return std::log(value / low_) / std::log(high_ / low_);
    }
    [[nodiscard]] double low() const { return low_; }
    [[nodiscard]] double high() const { return high_; }
    [[nodiscard]] std::vector<double> ticks() const;
    [[nodiscard]] std::string label(double value) const {
        if (scale_ == Scale::Bytes) return show_bytes(static_cast<std::size_t>(value));
        if (value >= 1e5) return fmt::format("{:.0e}", value);
        return fmt::format("{:g}", value);
    }

  private:
    Scale scale_;
    double low_ = std::numeric_limits<double>::infinity();
    double high_ = -std::numeric_limits<double>::infinity();
};

std::vector<double> PageAxis::ticks() const {
    std::vector<double> all;
    if (scale_ == Scale::Linear) {
        const double rough = (high_ - low_) / 5;
        const double power = std::pow(10, std::floor(std::log10(rough)));
        double step = power;
        for (const double factor : {2.0, 5.0, 10.0})
            if (step < rough) step = power * factor;
        for (double value = std::ceil(low_ / step) * step; value <= high_ && all.size() < 20;
             value += step)
            all.push_back(std::abs(value) < step * 1e-9 ? 0 : value);
        return all;
    }
    const double base = scale_ == Scale::Bytes ? 2 : 10;
    const double powers = std::log(high_ / low_) / std::log(base);
    // About eight labels have room.
    const int every = std::max(1, static_cast<int>(std::ceil(powers / 8)));
    const int first = static_cast<int>(std::ceil(std::log(low_) / std::log(base) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log(high_) / std::log(base) + 1e-9));
    const bool between = scale_ == Scale::Logarithmic && powers < 3;
    for (int power = between ? first - 1 : first; power <= last; power += every) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            if (factor > 1 && !between) continue;
            const double value = factor * std::pow(base, power);
            if (value >= low_ * 0.999 && value <= high_ * 1.001) all.push_back(value);
        }
    }
    return all;
}

void draw_axes(Drawing& drawing, const PageChart& chart, const PageAxis& x, const PageAxis& y) {
    for (const double tick : y.ticks()) {
        const double at = bottom_edge - y.place(tick) * (bottom_edge - top_edge);
        drawing.line(left_edge, at, right_edge, at, faint);
        drawing.words(left_edge - 6, at + word_size * 0.35, y.label(tick), Anchor::End, word_size);
    }
    for (const double tick : x.ticks()) {
        const double at = left_edge + x.place(tick) * (right_edge - left_edge);
        drawing.line(at, top_edge, at, bottom_edge, faint);
        drawing.words(at, bottom_edge + 18, x.label(tick), Anchor::Middle, word_size);
    }
    drawing.line(left_edge, top_edge, left_edge, bottom_edge, grey);
    drawing.line(left_edge, bottom_edge, right_edge, bottom_edge, grey);
    drawing.words(left_edge - 6, top_edge - 10, chart.y_title, Anchor::Start, word_size);
    drawing.words((left_edge + right_edge) / 2, bottom_edge + 40, chart.x_title, Anchor::Middle,
                  word_size);
}

std::string swatch(const SeriesLook& look) {
    std::string text = "<svg class=\"swatch\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">";
    if (look.line)
        text += fmt::format(
            "<line x1=\"1\" y1=\"6\" x2=\"33\" y2=\"6\" stroke=\"{}\" stroke-width=\"{:g}\" "
            "stroke-dasharray=\"{}\"/>",
            look.colour, look.width, look.dashes.empty() ? "none" : look.dashes);
    if (look.dots)
        text += fmt::format("<circle cx=\"17\" cy=\"6\" r=\"3\" fill=\"{}\"/>", look.colour);
    return text + "</svg>";
}

std::string number_table(const PageChart& chart, const PageAxis& x, const PageAxis& y) {
    constexpr std::size_t most_rows = 200;
    std::set<double> places;
    for (const PageSeries& series : chart.series)
        for (const PlotPoint& point : series.points)
            if (x.has(point.x) && y.has(point.y)) places.insert(point.x);
    if (places.empty() || places.size() > most_rows) return {};
    std::string text = fmt::format(
        "<details><summary>The numbers</summary><div class=\"wide\"><table><caption>{}: {}"
        "</caption><thead><tr><th scope=\"col\">{}</th>",
        xml_escaped(chart.title), xml_escaped(chart.y_title), xml_escaped(chart.x_title));
    for (const PageSeries& series : chart.series)
        text += fmt::format("<th scope=\"col\">{}</th>", xml_escaped(series.name));
    text += "</tr></thead><tbody>\n";
    for (const double place : places) {
        text += fmt::format("<tr><th scope=\"row\">{}</th>", x.label(place));
        for (const PageSeries& series : chart.series) {
            const auto found =
                std::find_if(series.points.begin(), series.points.end(),
                             [&](const PlotPoint& point) { return point.x == place; });
            text += found == series.points.end() ? std::string("<td></td>")
                                                 : fmt::format("<td>{:.4g}</td>", found->y);
        }
        text += "</tr>\n";
    }
    return text + "</tbody></table></div></details>";
}

}  // namespace

std::string chart_colours(bool dark) {
    std::string text;
    for (std::size_t index = 0; index < series_colours.size(); ++index)
        text += fmt::format("--c{}:{};", index,
                            dark ? series_colours[index].dark : series_colours[index].light);
    return text + (dark ? "--faint:#333a44;--grey:#8b949e;" : "--faint:#dde1e6;--grey:#6b737c;");
}

std::string chart_figure(const PageChart& chart) {
    PageAxis x(chart.x);
    PageAxis y(chart.y);
    bool any = false;
    for (const PageSeries& series : chart.series) {
        for (const PlotPoint& point : series.points) {
            if (!x.has(point.x) || !y.has(point.y)) continue;
            x.include(point.x);
            y.include(point.y);
            any = true;
        }
    }
    if (!any) return {};
    x.finish();
    y.finish();
    Drawing drawing(chart_width, chart_height);
    draw_axes(drawing, chart, x, y);
    const auto across = [&](double value) {
        return left_edge + x.place(value) * (right_edge - left_edge);
    };
    const auto up = [&](double value) {
        return bottom_edge - y.place(value) * (bottom_edge - top_edge);
    };
    for (const TimeMark& mark : chart.marks) {
        if (!x.has(mark.seconds) || mark.seconds < x.low() || mark.seconds > x.high()) continue;
        const double at = across(mark.seconds);
        drawing.curve({{at, top_edge}, {at, bottom_edge}}, grey, 1.5, "4 3");
        drawing.words(at + 4, top_edge + 12, mark.name, Anchor::Start, word_size);
    }
    std::string legend = "<ul class=\"legend\">";
    for (std::size_t index = 0; index < chart.series.size(); ++index) {
        const PageSeries& series = chart.series[index];
        const SeriesLook look = look_of(series, index);
        std::vector<Spot> spots;
        for (const PlotPoint& point : series.points) {
            if (!x.has(point.x) || !y.has(point.y)) continue;
            spots.push_back({across(point.x), up(point.y)});
            if (look.dots)
                drawing.dot(spots.back().x, spots.back().y, series.points.size() > 60 ? 1.2 : 3,
                            look.colour,
                            fmt::format("{}, {}: {:.4g} {}", series.name, x.label(point.x), point.y,
                                        chart.y_title));
        }
        if (spots.empty()) continue;
        if (look.line) drawing.curve(std::move(spots), look.colour, look.width, look.dashes);
        legend += fmt::format("<li>{}{}</li>", swatch(look), xml_escaped(series.name));
    }
    return fmt::format("<figure><figcaption>{}</figcaption>\n{}{}</ul>\n{}</figure>\n",
                       xml_escaped(chart.title), drawing.svg_in_page(chart.title), legend,
                       number_table(chart, x, y));
}

std::string value_strip(const ValueStrip& strip) {
    constexpr double width = 150;
    constexpr double height = 20;
    constexpr double margin = 6;
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    const auto include = [&](double value) {
        if (!is_drawable(value)) return;
        low = std::min(low, value);
        high = std::max(high, value);
    };
    for (const double value : strip.values)
        include(value);
    if (!(high >= low)) return {};
    if (strip.limit) include(*strip.limit);
    const bool band = strip.band_high > strip.band_low && is_drawable(strip.band_low) &&
                      is_drawable(strip.band_high);
    if (band) {
        include(strip.band_low);
        include(strip.band_high);
    }
    if (!(high > low)) {
        const double room = std::max(std::abs(low) * 0.05, 1e-9);
        low -= room;
        high += room;
    }
    const auto across = [&](double value) {
        return margin + (value - low) / (high - low) * (width - 2 * margin);
    };
    Drawing drawing(width, height);
    drawing.line(margin, height / 2, width - margin, height / 2, faint);
    if (band)
        drawing.box(across(strip.band_low), 4, across(strip.band_high) - across(strip.band_low),
                    height - 8, grey, 0.3);
    if (strip.limit && is_drawable(*strip.limit))
        drawing.curve({{across(*strip.limit), 1}, {across(*strip.limit), height - 1}},
                      series_colour(1), 2.5);
    for (const double value : strip.values)
        if (is_drawable(value))
            drawing.dot(across(value), height / 2, 3.2, series_colour(0),
                        fmt::format("{:.4g}", value));
    std::string svg = drawing.svg_in_page(strip.title);
    return svg.insert(4, " class=\"strip\"");
}

}  // namespace via::tool
