// SPDX-License-Identifier: BSD-3-Clause
#include "histogram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "statistics.hpp"

namespace via::tool {

std::vector<HistogramBin> make_histogram(std::span<const double> values, std::size_t bins) {
    if (values.empty() || bins == 0) return {};
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    const auto first =
        std::find_if(sorted.begin(), sorted.end(), [](double one) { return one > 0; });
    const double lowest = first == sorted.end() ? 0 : *first;
    const double highest = sorted.back();
    // All alike (or nothing positive): one bin says it.
    if (!(highest > lowest) || lowest <= 0) return {{lowest, highest, values.size()}};
    double body_end = percentile_of_sorted(sorted, 0.99);
    if (!(body_end > lowest)) body_end = highest;

    std::vector<HistogramBin> result;
    const double ratio = std::exp(std::log(body_end / lowest) / static_cast<double>(bins));
    double from = lowest;
    for (std::size_t bin = 0; bin < bins; ++bin, from = result.back().to)
        result.push_back({from, bin + 1 == bins ? body_end : from * ratio, 0});
    while (from < highest) {
        const double decade = std::pow(10, std::floor(std::log10(from * 1.000001)) + 1);
        result.push_back({from, std::min(decade, highest), 0});
        from = result.back().to;
    }
    auto bin = result.begin();
    for (const double value : sorted) {
        while (value >= bin->to && bin + 1 != result.end())
            ++bin;
        ++bin->count;
    }
    return result;
}

std::string draw_bar(double share, std::size_t width) {
    static constexpr std::array<const char*, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const double bounded = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0);
    const auto filled =
        static_cast<std::size_t>(std::lround(bounded * 8 * static_cast<double>(width)));
    std::string bar;
    for (std::size_t column = 0; column < filled / 8; ++column)
        bar += "█";
    std::size_t columns = filled / 8;
    if (filled % 8 != 0) {
        bar += eighths[filled % 8];
        ++columns;
    }
    bar.append(width - std::min(columns, width), ' ');
    return bar;
}

std::string draw_histogram(std::span<const HistogramBin> bins, std::string_view unit,
                           std::size_t bar_width) {
    std::uint64_t largest = 0;
    for (const HistogramBin& bin : bins)
        largest = std::max(largest, bin.count);
    if (largest == 0) return {};
    std::string text;
    bool in_gap = false;
    for (const HistogramBin& bin : bins) {
        if (bin.count == 0) {
            if (!in_gap) text += fmt::format("{:>12}\n", "...");
            in_gap = true;
            continue;
        }
        in_gap = false;
        // A bin with anything in it shows at least a sliver.
        const double share = std::max(static_cast<double>(bin.count) / static_cast<double>(largest),
                                      1.0 / 8 / static_cast<double>(bar_width));
        text += fmt::format("{:>12.4g} .. {:<10.4g} {} {} {}\n", bin.from, bin.to, unit,
                            draw_bar(share, bar_width), bin.count);
    }
    return text;
}

}  // namespace via::tool
