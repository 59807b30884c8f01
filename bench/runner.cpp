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
constexpr const char* no_time = "the time of the run was over before its turn came";
/// A step of a curve until the first one shows it.
constexpr double curve_step_seconds = 0.6;

/// The kinds of steps that belong to one pair.
struct PairSteps {
    std::size_t ours = 0;
    std::size_t peer = 0;
};

/// What all takes of a run have in common.
struct Run {
    Progress progress;
    const std::function<bool()>& stop;
    Repetitions limits;

    [[nodiscard]] bool broken_off() const { return stop && stop(); }
    /// There is no time for what was taken before.
    [[nodiscard]] bool is_late() const {
        return limits.seconds > 0 && progress.elapsed() > limits.seconds;
    }
    [[nodiscard]] bool is_over() const {
        return limits.last_seconds > 0 && progress.elapsed() > limits.last_seconds;
    }
};

double take(Pair& pair, const Probe& probe, std::size_t kind, double& seconds, Run& run) {
    if (run.broken_off()) return failed;
    if (!probe.missing.empty() || pair.failures_in_a_row >= patience) {
        run.progress.left_out(kind);
        return failed;
    }
    run.progress.begin(kind, pair.title + ": " + probe.label);
    auto value = probe.take();
    seconds += run.progress.end();
    if (!value) {
        ++pair.failures_in_a_row;
        pair.failures.push_back(value.error().sentence);
        return failed;
    }
    pair.failures_in_a_row = 0;
    return value.value();
}

void take_pair(Pair& pair, const PairSteps& steps, bool peer_first, Run& run) {
    // What has a value already can do without another.
    if (!pair.our_values.empty() && run.is_late()) return;
    if (run.is_over()) {
        if (pair.failures.empty()) pair.failures.emplace_back(no_time);
        return;
    }
    double theirs = failed;
    if (peer_first && pair.peer)
        theirs = take(pair, *pair.peer, steps.peer, pair.peer_seconds, run);
    const double ours = take(pair, pair.ours, steps.ours, pair.our_seconds, run);
    if (!peer_first && pair.peer)
        theirs = take(pair, *pair.peer, steps.peer, pair.peer_seconds, run);
    pair.our_values.push_back(ours);
    if (pair.peer) pair.peer_values.push_back(theirs);
}

/// Curves step by step together, so that neighbours in the plot are neighbours in time.
void take_curves(const std::vector<Curve>& curves, const std::vector<std::size_t>& kinds,
                 std::vector<CurveResult>& results, Run& run) {
    std::size_t longest = 0;
    for (const Curve& curve : curves)
        longest = std::max(longest, curve.steps.size());
    for (std::size_t step = 0; step < longest; ++step) {
        for (std::size_t index = 0; index < curves.size(); ++index) {
            const Curve& curve = curves[index];
            CurveResult& result = results[index];
            if (step >= curve.steps.size() || run.broken_off()) continue;
            if (run.is_over() && result.problem.empty()) result.problem = no_time;
            if (!curve.missing.empty() || run.is_over()) {
                run.progress.left_out(kinds[index]);
                continue;
            }
            run.progress.begin(kinds[index], "plots: " + curve.label);
            auto points = curve.steps[step]();
            (void)run.progress.end();
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
    TimeLeft left;
    std::vector<PairSteps> pair_steps;
    for (const Pair& pair : plan.pairs) {
        PairSteps& steps = pair_steps.emplace_back();
        steps.ours = left.add(pair.ours.seconds, repetitions.pairs);
        if (pair.peer) steps.peer = left.add(pair.peer->seconds, repetitions.pairs);
    }
    std::vector<std::size_t> curve_kinds;
    std::vector<CurveResult> results;
    for (const Curve& curve : plan.curves) {
        curve_kinds.push_back(
            left.add(curve_step_seconds, curve.steps.size() * repetitions.curves));
        results.push_back({curve.label, curve.quantity, {}, curve.missing, curve.group});
    }
    std::vector<std::size_t> scene_kinds;
    for (const Scene& scene : plan.scenes)
        scene_kinds.push_back(left.add(scene.seconds, 1));

    Run run{Progress(std::move(left), repetitions.last_seconds), stop, repetitions};
    const auto play_scenes = [&] {
        for (std::size_t index = 0; index < plan.scenes.size(); ++index) {
            if (run.broken_off()) return;
            run.progress.begin(scene_kinds[index], plan.scenes[index].title);
            plan.scenes[index].play();
            (void)run.progress.end();
        }
    };
    const std::size_t rounds = std::max(repetitions.pairs, repetitions.curves);
    for (std::size_t repetition = 0; repetition < rounds; ++repetition) {
        // Who goes first changes, in case the second finds the machine warmer.
        if (repetition < repetitions.pairs) {
            for (std::size_t index = 0; index < plan.pairs.size(); ++index)
                take_pair(plan.pairs[index], pair_steps[index], repetition % 2 == 1, run);
        }
        // Whatever comes later may fall to a limit of time.
        if (repetition == 0) play_scenes();
        if (repetition < repetitions.curves && (repetition == 0 || !run.is_late()))
            take_curves(plan.curves, curve_kinds, results, run);
    }
    return results;
}

}  // namespace via::bench
