// SPDX-License-Identifier: BSD-3-Clause
#include "gantt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace via::tool {
namespace {

constexpr double left = 150;
constexpr double first_row = 40;
constexpr double row_height = 30;
constexpr double bar_height = 22;
constexpr double plot_width = 1020;
constexpr double right = 20;
constexpr double axis_height = 44;
constexpr double legend_row = 20;
constexpr double legend_column = 170;
constexpr double digit_width = 7;

// Told apart also where colours are not: neighbours differ in brightness.
constexpr std::array<const char*, 14> bar_colours{
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1",
    "#9c755f", "#b6992d", "#d37295", "#a0cbe8", "#8cd17d", "#ffbe7d", "#79706e"};
constexpr const char* rule = "#dddddd";

/// 1, 2 or 5 times a power of ten, so that there are about ten of them.
double tick_step(double span) {
    const double wanted = span / 10;
    const double power = std::pow(10, std::floor(std::log10(wanted)));
    for (const double digit : {1.0, 2.0, 5.0})
        if (digit * power >= wanted) return digit * power;
    return 10 * power;
}

/// These come first, so that the same stage has the same colour in different pictures.
constexpr std::array<const char*, 12> usual_stages{
    "post",   "descriptor", "start fetch",        "fetch",       "header", "send",
    "packet", "status",     "receive descriptor", "start store", "store",  "fetch descriptor"};

std::vector<std::string> stages_of(const Timeline& timeline) {
    std::vector<std::string> stages(usual_stages.begin(), usual_stages.end());
    for (const TimelineBar& bar : timeline.bars)
        if (std::find(stages.begin(), stages.end(), bar.label) == stages.end())
            stages.push_back(bar.label);
    return stages;
}

bool occurs(const Timeline& timeline, const std::string& stage) {
    return std::any_of(timeline.bars.begin(), timeline.bars.end(),
                       [&](const TimelineBar& bar) { return bar.label == stage; });
}

void draw_axis(Drawing& drawing, double span, double bottom) {
    const double step = tick_step(span);
    for (int tick = 0; tick * step <= span; ++tick) {
        const double x = left + tick * step / span * plot_width;
        drawing.line(x, first_row, x, bottom, rule);
        drawing.words(x, bottom + 15, fmt::format("{:g}", tick * step), Anchor::Middle, 11);
    }
    drawing.words(left + plot_width, bottom + 31, "µs", Anchor::End, 11);
}

}  // namespace

Drawing draw_gantt(const Timeline& timeline, const std::string& title) {
    const std::vector<std::string> stages = stages_of(timeline);
    const double bottom = first_row + row_height * static_cast<double>(timeline.lanes.size());
    const auto columns = static_cast<std::size_t>((plot_width + left) / legend_column);
    const auto in_legend =
        std::count_if(stages.begin(), stages.end(),
                      [&](const std::string& stage) { return occurs(timeline, stage); });
    const double legend_rows =
        std::ceil(static_cast<double>(in_legend) / static_cast<double>(columns));
    Drawing drawing(left + plot_width + right, bottom + axis_height + legend_rows * legend_row);
    drawing.words(left, 24, title, Anchor::Start, 15);

    const double span = std::max(sim::in_microseconds(timeline.end()), 1e-6);
    draw_axis(drawing, span, bottom);
    for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
        const double y = first_row + row_height * static_cast<double>(lane + 1);
        drawing.line(left, y, left + plot_width, y, rule);
        drawing.words(left - 8, y - row_height / 2 + 4, timeline.lanes[lane].name, Anchor::End, 12);
    }
    for (const TimelineBar& bar : timeline.bars) {
        const auto stage = static_cast<std::size_t>(
            std::find(stages.begin(), stages.end(), bar.label) - stages.begin());
        const double x = left + sim::in_microseconds(bar.begin) / span * plot_width;
        const double width = sim::in_microseconds(bar.end - bar.begin) / span * plot_width;
        const double y =
            first_row + row_height * static_cast<double>(bar.lane) + (row_height - bar_height) / 2;
        // Every second message is paler, so that one ends where the next begins.
        drawing.box(x, y, std::max(width, 0.3), bar_height, bar_colours[stage % bar_colours.size()],
                    bar.message % 2 == 0 ? 0.65 : 1);
        const std::string number = std::to_string(bar.message);
        if (bar.message != 0 && width > digit_width * static_cast<double>(number.size()))
            drawing.words(x + width / 2, y + bar_height / 2 + 4, number, Anchor::Middle, 11);
    }
    std::size_t entry = 0;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        if (!occurs(timeline, stages[stage])) continue;
        const double x = 20 + legend_column * static_cast<double>(entry % columns);
        const std::size_t row = entry / columns;
        const double y = bottom + axis_height + legend_row * static_cast<double>(row) - 2;
        drawing.box(x, y, 12, 12, bar_colours[stage % bar_colours.size()]);
        drawing.words(x + 18, y + 10, stages[stage], Anchor::Start, 12);
        ++entry;
    }
    return drawing;
}

}  // namespace via::tool
