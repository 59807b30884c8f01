// SPDX-License-Identifier: BSD-3-Clause
#include "runner.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "progress.hpp"

namespace via::bench {

namespace {

/// So often in a row a pair may fail before it is left alone: each failure may cost a deadline.
constexpr std::size_t patience = 3;
constexpr double failed = std::numeric_limits<double>::quiet_NaN();

/// What all takes of a run have in common.
struct Run {
    Progress progress;
    const std::function<bool()>& stop;

    [[nodiscard]] bool broken_off() const { return stop && stop(); }
};

double take(Pair& pair, const Probe& probe, Run& run) {
    if (run.broken_off()) return failed;
    run.progress.step(pair.title + ": " + probe.label);
    if (!probe.missing.empty() || pair.failures_in_a_row >= patience) return failed;
    auto value = probe.take();
    if (!value) {
        ++pair.failures_in_a_row;
        pair.failures.push_back(value.error().sentence);
        return failed;
    }
    pair.failures_in_a_row = 0;
    return value.value();
}

void take_pair(Pair& pair, bool peer_first, Run& run) {
    double theirs = failed;
    if (peer_first && pair.peer) theirs = take(pair, *pair.peer, run);
    const double ours = take(pair, pair.ours, run);
    if (!peer_first && pair.peer) theirs = take(pair, *pair.peer, run);
    pair.our_values.push_back(ours);
    if (pair.peer) pair.peer_values.push_back(theirs);
}

/// Curves step by step together, so that neighbours in the plot are neighbours in time.
void take_curves(const std::vector<Curve>& curves, std::vector<CurveResult>& results, Run& run) {
    std::size_t longest = 0;
    for (const Curve& curve : curves)
        longest = std::max(longest, curve.steps.size());
    for (std::size_t step = 0; step < longest; ++step) {
        for (std::size_t index = 0; index < curves.size(); ++index) {
            const Curve& curve = curves[index];
            CurveResult& result = results[index];
            if (step >= curve.steps.size() || run.broken_off()) continue;
            run.progress.step("plots: " + curve.label);
            if (!curve.missing.empty()) continue;
            auto points = curve.steps[step]();
            if (!points) {
                if (result.problem.empty()) result.problem = points.error().sentence;
                continue;
            }
            for (const Point& point : points.value()) {
                auto same = std::find_if(result.points.begin(), result.points.end(),
                                         [&](const auto& old) { return old.bytes == point.bytes; });
                if (same == result.points.end()) {
                    same = result.points.insert(same, CurvePoint{point.bytes, {}});
                }
                same->values.push_back(point.value);
            }
        }
    }
}

}  // namespace

std::vector<CurveResult> run_plan(Plan& plan, Repetitions repetitions,
                                  const std::function<bool()>& stop) {
    std::size_t takes = 0;
    for (const Pair& pair : plan.pairs)
        takes += pair.peer ? 2 : 1;
    std::size_t curve_steps = 0;
    for (const Curve& curve : plan.curves)
        curve_steps += curve.steps.size();
    if (curve_steps == 0) repetitions.curves = 0;
    Run run{Progress(takes * repetitions.pairs + curve_steps * repetitions.curves), stop};

    std::vector<CurveResult> results;
    for (const Curve& curve : plan.curves) {
        results.push_back({curve.label, curve.quantity, {}, curve.missing});
    }
    for (std::size_t repetition = 0; repetition < repetitions.pairs; ++repetition) {
        // Who goes first changes, in case the second finds the machine warmer.
        for (Pair& pair : plan.pairs)
            take_pair(pair, repetition % 2 == 1, run);
        if (repetition < repetitions.curves) take_curves(plan.curves, results, run);
    }
    for (std::size_t repetition = repetitions.pairs; repetition < repetitions.curves;
         ++repetition) {
        take_curves(plan.curves, results, run);
    }
    return results;
}

}  // namespace via::bench
