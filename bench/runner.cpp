// SPDX-License-Identifier: BSD-3-Clause
#include "runner.hpp"

#include <algorithm>
#include <limits>
#include <span>
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

/// Its value, or those of its rivals.
std::vector<double> take(Pair& pair, const Probe& probe, std::size_t kind, double& seconds,
                         Run& run) {
    const auto all = probe.rivals.empty() ? std::span<const Probe>(&probe, 1)
                                          : std::span<const Probe>(probe.rivals);
    std::vector<double> values(all.size(), failed);
    if (run.broken_off()) return values;
    if (!probe.missing.empty() || pair.failures_in_a_row >= patience) {
        run.progress.left_out(kind);
        return values;
    }
    run.progress.begin(kind, pair.title + ": " + probe.label);
    bool any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto value = all[i].take();
        if (value) {
            values[i] = value.value();
            any = true;
        } else {
            pair.failures.push_back(value.error().sentence);
        }
    }
    seconds += run.progress.end();
    pair.failures_in_a_row = any ? 0 : pair.failures_in_a_row + 1;
    return values;
}

void take_pair(Pair& pair, const PairSteps& steps, bool peer_first, Run& run) {
    // What has a value already can do without another.
    if (!pair.our_values.empty() && run.is_late()) return;
    if (run.is_over()) {
        if (pair.failures.empty()) pair.failures.emplace_back(no_time);
        return;
    }
    const auto take_peer = [&] {
        pair.add_peer_values(take(pair, *pair.peer, steps.peer, pair.peer_seconds, run));
    };
    if (peer_first && pair.peer) take_peer();
    pair.our_values.push_back(take(pair, pair.ours, steps.ours, pair.our_seconds, run).front());
    if (!peer_first && pair.peer) take_peer();
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
