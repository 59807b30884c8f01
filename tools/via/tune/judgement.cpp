// SPDX-License-Identifier: BSD-3-Clause
#include "tune/judgement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "statistics.hpp"

namespace via::tool {
namespace {

/// A change must be worth more than this beyond the spread.
constexpr double least_gain = 0.01;

}  // namespace

double PointCosts::cost(std::size_t round) const {
    return std::sqrt(one_way_us[round] * stream_us[round]);
}

double PointCosts::typical_cost() const {
    return std::sqrt(median(one_way_us) * median(stream_us));
}

Comparison judge(std::vector<double> ratios) {
    Comparison comparison;
    if (ratios.empty()) return comparison;
    std::sort(ratios.begin(), ratios.end());
    comparison.ratio = percentile_of_sorted(ratios, 0.5);
    comparison.low = percentile_of_sorted(ratios, 0.25);
    comparison.high = percentile_of_sorted(ratios, 0.75);
    if (comparison.high < 1 - least_gain) comparison.verdict = Verdict::Better;
    if (comparison.low > 1 + least_gain) comparison.verdict = Verdict::Worse;
    return comparison;
}

Comparison compare(const SizeCosts& size) {
    std::vector<double> ratios;
    const std::size_t rounds =
        std::min({size.first.one_way_us.size(), size.first.stream_us.size(),
                  size.second.one_way_us.size(), size.second.stream_us.size()});
    // Round by round: what slowed the machine down then slowed both.
    for (std::size_t round = 0; round < rounds; ++round)
        ratios.push_back(size.second.cost(round) / size.first.cost(round));
    return judge(std::move(ratios));
}

bool second_wins(const std::vector<SizeCosts>& sizes) {
    double total = 0;
    bool somewhere = false;
    for (const SizeCosts& size : sizes) {
        const Comparison comparison = compare(size);
        total += std::log(comparison.ratio);
        somewhere = somewhere || comparison.verdict == Verdict::Better;
    }
    return somewhere && total < 0;
}

void decide(SettingStudy& study) {
    study.accepted = false;
    if (study.now == study.chosen) {
        study.verdict = fmt::format("{} stays {}: {}.", study.name, study.now, study.reason);
        return;
    }
    double total = 0;
    std::size_t better = 0;
    std::size_t worse = 0;
    std::size_t changed = 0;
    for (std::size_t i = 0; i < study.effect.size() && i < study.changes.size(); ++i) {
        if (!study.changes[i]) continue;
        const Comparison comparison = compare(study.effect[i]);
        ++changed;
        total += std::log(comparison.ratio);
        if (comparison.verdict == Verdict::Better) ++better;
        if (comparison.verdict == Verdict::Worse) ++worse;
    }
    study.accepted = better > 0 && total < 0;
    if (changed == 0) {
        study.verdict = fmt::format(
            "{} stays {}: no size that was measured lies between that and "
            "{}.",
            study.name, study.now, study.chosen);
        return;
    }
    const double gain = 100 * (1 - std::exp(total / static_cast<double>(changed)));
    const std::string counts = fmt::format(
        "of {} sizes that change {} are better beyond the spread and {} worse; on the "
        "whole they take {:.1f} % {}",
        changed, better, worse, std::abs(gain), gain >= 0 ? "less" : "more");
    study.verdict = study.accepted
                        ? fmt::format("{}: {} instead of {}, because {}; {}.", study.name,
                                      study.chosen, study.now, study.reason, counts)
                        : fmt::format("{} stays {}, although {}: with {} {}.", study.name,
                                      study.now, study.reason, study.chosen, counts);
}

}  // namespace via::tool
