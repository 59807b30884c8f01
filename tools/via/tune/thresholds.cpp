// SPDX-License-Identifier: BSD-3-Clause
#include "tune/thresholds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/settings.hpp"
#include "crossing.hpp"
#include "probes.hpp"
#include "size_list.hpp"

namespace via::tool {
namespace {

using base::Result;
using Costs = std::vector<std::vector<PointCosts>>;

constexpr std::string_view inline_name = "VIA_SHM_INLINE";
constexpr std::string_view chunk_name = "VIA_SHM_CHUNK_BYTES";
constexpr std::string_view kmem_name = "VIA_SHM_KMEM_BYTES";
constexpr std::string_view single_name = "VIA_SHM_SINGLE_COPY_BYTES";

std::pair<std::uint64_t, std::uint64_t> legal_range(std::string_view name) {
    for (const base::SettingDeclaration& declaration : base::setting_declarations())
        if (declaration.name == name) return {declaration.minimum, declaration.maximum};
    return {0, 0};
}

/// No message by a single copy, or every message that the device allows.
Thresholds all_through_the_ring(Thresholds thresholds) {
    thresholds.kmem_bytes = legal_range(kmem_name).second;
    thresholds.single_copy_bytes = legal_range(single_name).second;
    return thresholds;
}
Thresholds all_by_single_copy(Thresholds thresholds) {
    thresholds.kmem_bytes = legal_range(kmem_name).first;
    thresholds.single_copy_bytes = legal_range(single_name).first;
    return thresholds;
}

std::vector<DevicePoint> points_of(MemoryKind memory, const std::vector<std::uint64_t>& sizes) {
    std::vector<DevicePoint> points;
    for (const std::uint64_t bytes : sizes)
        points.push_back({memory, bytes});
    return points;
}

std::vector<SizeCosts> side_by_side(const std::vector<DevicePoint>& points, std::size_t begin,
                                    std::size_t count, const std::vector<PointCosts>& first,
                                    const std::vector<PointCosts>& second) {
    std::vector<SizeCosts> sizes;
    for (std::size_t i = begin; i < begin + count; ++i)
        sizes.push_back({points[i].bytes, first[i], second[i]});
    return sizes;
}

/// Relative to the first way, by the median of the rounds' ratios: a slow spell hits both.
std::vector<CostPair> as_cost_pairs(const std::vector<SizeCosts>& sizes) {
    std::vector<CostPair> pairs;
    for (const SizeCosts& size : sizes)
        pairs.push_back({size.bytes, 1, compare(size).ratio});
    return pairs;
}

class Study {
  public:
    Study(const Thresholds& now, const TunePlan& plan) : now_(now), chosen_(now), plan_(plan) {}

    Result<std::vector<SettingStudy>> run() {
        if (auto done = study_inline_and_chunk(); !done) return std::move(done).error();
        if (auto done = study_single_copies(); !done) return std::move(done).error();
        if (auto done = measure_effect(); !done) return std::move(done).error();
        std::vector<SettingStudy> all{std::move(inline_), std::move(chunk_), std::move(kmem_),
                                      std::move(single_)};
        for (SettingStudy& study : all)
            decide(study);
        return all;
    }

  private:
    Result<Costs> measure(std::string_view stage, const std::vector<DeviceSetting>& settings,
                          std::uint32_t rounds) {
        plan_.on_stage(stage, settings.size() * rounds);
        DeviceRunPlan runs = plan_.runs;
        runs.rounds = rounds;
        return measure_in_turn(settings, runs);
    }

    std::vector<std::uint64_t> chunk_candidates() const {
        std::vector<std::uint64_t> candidates{now_.chunk_bytes};
        // A chunk is at most a quarter of the ring.
        const std::uint64_t most = std::min<std::uint64_t>(
            legal_range(chunk_name).second, base::Settings::get().number("VIA_SHM_RING_BYTES") / 4);
        for (std::uint64_t candidate = 1024; candidate <= 32768; candidate *= 2)
            if (candidate <= most && candidate != now_.chunk_bytes) candidates.push_back(candidate);
        return candidates;
    }

    Result<void> study_inline_and_chunk() {
        const auto small = points_of(MemoryKind::Kmem, {4, 8, 16, 32, 53});
        const auto middle = points_of(
            MemoryKind::Heap, plan_.quick ? std::vector<std::uint64_t>{8192, 32768}
                                          : std::vector<std::uint64_t>{4096, 8192, 16384, 32768});
        Thresholds other = now_;
        other.inline_frames = !now_.inline_frames;
        std::vector<DeviceSetting> settings{{as_environment(now_), small},
                                            {as_environment(other), small}};
        const std::vector<std::uint64_t> candidates = chunk_candidates();
        for (const std::uint64_t candidate : candidates) {
            Thresholds trial = all_through_the_ring(now_);
            trial.chunk_bytes = candidate;
            settings.push_back({as_environment(trial), middle});
        }
        auto costs = measure("inline frames and chunks", settings, plan_.runs.rounds);
        if (!costs) return std::move(costs).error();

        inline_.name = inline_name;
        inline_.first_name = now_.inline_frames ? "inline" : "ring";
        inline_.second_name = now_.inline_frames ? "ring" : "inline";
        inline_.sizes = side_by_side(small, 0, small.size(), costs.value()[0], costs.value()[1]);
        inline_.now = now_.inline_frames ? "1" : "0";
        if (second_wins(inline_.sizes)) chosen_.inline_frames = other.inline_frames;
        inline_.chosen = chosen_.inline_frames ? "1" : "0";
        inline_.reason = fmt::format("small messages go better {} frames",
                                     chosen_.inline_frames ? "inside" : "beside");
        choose_chunk(middle, candidates, costs.value());
        return {};
    }

    void choose_chunk(const std::vector<DevicePoint>& points,
                      const std::vector<std::uint64_t>& candidates, const Costs& costs) {
        constexpr std::size_t before = 2;  // the two settings of the inline question
        std::size_t best = 0;
        double least = 0;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            double total = 0;
            for (const PointCosts& point : costs[before + i])
                total += std::log(point.typical_cost());
            if (i == 0 || total < least) {
                least = total;
                best = i;
            }
        }
        chunk_.name = chunk_name;
        chunk_.memory = MemoryKind::Heap;
        chunk_.first_name = format_size(candidates[0]);
        chunk_.second_name = format_size(candidates[best]);
        chunk_.now = format_size(now_.chunk_bytes);
        if (best != 0)
            chunk_.sizes =
                side_by_side(points, 0, points.size(), costs[before], costs[before + best]);
        if (best != 0 && second_wins(chunk_.sizes)) chosen_.chunk_bytes = candidates[best];
        chunk_.chosen = format_size(chosen_.chunk_bytes);
        chunk_.reason =
            best == 0
                ? fmt::format("no other portion is better on the whole than {}", chunk_.now)
                : fmt::format(
                      "portions of {} cost least on the whole{}", chunk_.second_name,
                      chosen_.chunk_bytes == now_.chunk_bytes ? ", but not beyond the spread" : "");
    }

    Result<void> study_single_copies() {
        const Finding cma = probe_cma();
        using Sizes = std::vector<std::uint64_t>;
        const Sizes kmem_sizes = plan_.quick
                                     ? Sizes{256, 1024, 2048, 4096, 8192, 16384, 32768}
                                     : Sizes{128,  256,  512,   1024,  1536,  2048,  3072, 4096,
                                             6144, 8192, 12288, 16384, 24576, 32768, 65536};
        Sizes heap_sizes =
            plan_.quick ? Sizes{4096, 16384, 65536, 262144}
                        : Sizes{2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1048576};
        if (!cma.works) heap_sizes.clear();
        std::vector<DevicePoint> points = points_of(MemoryKind::Kmem, kmem_sizes);
        const auto further = points_of(MemoryKind::Heap, heap_sizes);
        points.insert(points.end(), further.begin(), further.end());
        auto costs = measure("single copies beside the ring",
                             {{as_environment(all_through_the_ring(chosen_)), points},
                              {as_environment(all_by_single_copy(chosen_)), points}},
                             plan_.runs.rounds);
        if (!costs) return std::move(costs).error();
        const std::vector<PointCosts>& ring = costs.value()[0];
        const std::vector<PointCosts>& single = costs.value()[1];

        kmem_.name = kmem_name;
        kmem_.first_name = "ring";
        kmem_.second_name = "mapping";
        kmem_.sizes = side_by_side(points, 0, kmem_sizes.size(), ring, single);
        single_.name = single_name;
        single_.memory = MemoryKind::Heap;
        single_.first_name = "ring";
        single_.second_name = "CMA";
        single_.sizes = side_by_side(points, kmem_sizes.size(), heap_sizes.size(), ring, single);
        if (cma.works)
            choose_threshold(single_, chosen_.single_copy_bytes);
        else
            single_.reason = "CMA does not work here: " + cma.detail;
        choose_threshold(kmem_, chosen_.kmem_bytes);
        // The device takes the smaller of the two for memory that can be mapped.
        chosen_.kmem_bytes = std::min(chosen_.kmem_bytes, chosen_.single_copy_bytes);
        kmem_.now = format_size(now_.kmem_bytes);
        kmem_.chosen = format_size(chosen_.kmem_bytes);
        single_.now = format_size(now_.single_copy_bytes);
        single_.chosen = format_size(chosen_.single_copy_bytes);
        return {};
    }

    static void choose_threshold(SettingStudy& study, std::uint64_t& value) {
        const std::vector<CostPair> pairs = as_cost_pairs(study.sizes);
        const Crossing crossing = find_crossing(pairs);
        const auto [minimum, maximum] = legal_range(study.name);
        value = threshold_for(crossing, pairs, value, minimum, maximum);
        const std::string memory = study.memory == MemoryKind::Kmem ? "kmem" : "ordinary memory";
        switch (crossing.kind) {
            case Crossing::Kind::Never:
                study.reason =
                    fmt::format("up to {} bytes the ring beats {} from {}",
                                format_size(pairs.back().bytes), study.second_name, memory);
                break;
            case Crossing::Kind::Always:
                study.reason = fmt::format("{} from {} beats the ring at every size measured",
                                           study.second_name, memory);
                break;
            case Crossing::Kind::From:
                study.reason = fmt::format("{} from {} beats the ring from {} bytes on",
                                           study.second_name, memory, format_size(crossing.bytes));
                break;
        }
    }

    /// The sizes whose path changes, and a neighbour on either side.
    static void plan_effect(SettingStudy& study, std::uint64_t now, std::uint64_t chosen,
                            std::vector<std::uint64_t>& sizes) {
        if (now == chosen) return;
        const auto [low, high] = std::minmax(now, chosen);
        for (std::size_t i = 0; i < study.sizes.size(); ++i) {
            const std::uint64_t bytes = study.sizes[i].bytes;
            const bool changes = bytes >= low && bytes < high;
            const bool before =
                i + 1 < study.sizes.size() && bytes < low && study.sizes[i + 1].bytes >= low;
            const bool after = i > 0 && bytes >= high && study.sizes[i - 1].bytes < high;
            if (!changes && !before && !after) continue;
            sizes.push_back(bytes);
            study.changes.push_back(changes);
        }
    }

    Result<void> measure_effect() {
        std::vector<std::uint64_t> kmem_sizes;
        std::vector<std::uint64_t> heap_sizes;
        plan_effect(kmem_, now_.kmem_bytes, chosen_.kmem_bytes, kmem_sizes);
        plan_effect(single_, now_.single_copy_bytes, chosen_.single_copy_bytes, heap_sizes);
        std::vector<std::uint64_t> small_sizes;
        if (chosen_.inline_frames != now_.inline_frames) small_sizes = {4, 8, 16, 32, 53};
        inline_.changes.assign(small_sizes.size(), true);
        std::vector<std::uint64_t> chunk_sizes;
        if (chosen_.chunk_bytes != now_.chunk_bytes)
            for (const SizeCosts& size : chunk_.sizes)
                if (size.bytes < chosen_.single_copy_bytes) chunk_sizes.push_back(size.bytes);
        chunk_.changes.assign(chunk_sizes.size(), true);

        std::vector<DevicePoint> points = points_of(MemoryKind::Kmem, small_sizes);
        for (const DevicePoint& point : points_of(MemoryKind::Kmem, kmem_sizes))
            points.push_back(point);
        for (const DevicePoint& point : points_of(MemoryKind::Heap, heap_sizes))
            points.push_back(point);
        const auto chunk_points = points_of(MemoryKind::Heap, chunk_sizes);
        if (points.empty() && chunk_points.empty()) return {};

        // All that is new beside all that was; the chunks besides by themselves, because the sizes
        // that they matter to are those that the new thresholds leave to the ring.
        Thresholds without_chunk = chosen_;
        without_chunk.chunk_bytes = now_.chunk_bytes;
        std::vector<DeviceSetting> settings{{as_environment(now_), points},
                                            {as_environment(chosen_), points}};
        if (!chunk_points.empty()) {
            settings.push_back({as_environment(without_chunk), chunk_points});
            settings.push_back({as_environment(chosen_), chunk_points});
        }
        auto costs = measure("before and after", settings, plan_.effect_rounds);
        if (!costs) return std::move(costs).error();
        const Costs& all = costs.value();
        std::size_t begin = 0;
        for (const auto& [study, count] :
             {std::pair{&inline_, small_sizes.size()}, std::pair{&kmem_, kmem_sizes.size()},
              std::pair{&single_, heap_sizes.size()}}) {
            study->effect = side_by_side(points, begin, count, all[0], all[1]);
            begin += count;
        }
        if (!chunk_points.empty())
            chunk_.effect = side_by_side(chunk_points, 0, chunk_points.size(), all[2], all[3]);
        return {};
    }

    Thresholds now_;
    Thresholds chosen_;
    const TunePlan& plan_;
    SettingStudy inline_;
    SettingStudy chunk_;
    SettingStudy kmem_;
    SettingStudy single_;
};

}  // namespace

Thresholds current_thresholds() {
    const base::Settings& settings = base::Settings::get();
    Thresholds thresholds;
    thresholds.inline_frames = settings.flag(inline_name);
    thresholds.chunk_bytes = settings.number(chunk_name);
    thresholds.single_copy_bytes = settings.number(single_name);
    thresholds.kmem_bytes = std::min(settings.number(kmem_name), thresholds.single_copy_bytes);
    return thresholds;
}

Environment as_environment(const Thresholds& thresholds) {
    return {{"VIA_SHM_PATH", "auto"},
            {std::string(inline_name), thresholds.inline_frames ? "1" : "0"},
            {std::string(chunk_name), std::to_string(thresholds.chunk_bytes)},
            {std::string(kmem_name), std::to_string(thresholds.kmem_bytes)},
            {std::string(single_name), std::to_string(thresholds.single_copy_bytes)}};
}

Result<std::vector<SettingStudy>> study_thresholds(const Thresholds& now, const TunePlan& plan) {
    return Study(now, plan).run();
}

}  // namespace via::tool
