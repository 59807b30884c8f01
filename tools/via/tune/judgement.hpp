// SPDX-License-Identifier: BSD-3-Clause
// Whether a change of a setting is worth it, from what was measured in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "terms.hpp"

namespace via::tool {

/// What was measured under one setting at one point, a value a round.
struct PointCosts {
    std::vector<double> one_way_us;
    std::vector<double> stream_us;  ///< a message of a stream

    /// Of one round: what stands for both, their geometric mean.
    [[nodiscard]] double cost(std::size_t round) const;
    [[nodiscard]] double typical_cost() const;
};

/// One size in the two ways of a question, or one value of a setting beside another.
struct SizeCosts {
    std::uint64_t bytes = 0;
    PointCosts first;
    PointCosts second;
};

/// Is the second of two, measured in turn, better beyond the spread of the rounds?
enum class Verdict { Better, Same, Worse };
struct Comparison {
    Verdict verdict = Verdict::Same;
    double ratio = 1;  ///< second's cost over first's, the median of the rounds
    double low = 1;    ///< the middle half of the rounds
    double high = 1;
};
/// Better: three quarters of the rounds agree, by more than one percent. Worse likewise.
[[nodiscard]] Comparison compare(const SizeCosts& size);
/// The same for given ratios, one a round.
[[nodiscard]] Comparison judge(std::vector<double> ratios);

/// What was found about one setting.
struct SettingStudy {
    std::string name;        ///< "VIA_SHM_KMEM_BYTES"
    std::string first_name;  ///< "ring"
    std::string second_name;
    MemoryKind memory = MemoryKind::Kmem;
    std::vector<SizeCosts> sizes;  ///< the forced paths, or the candidates' best beside now
    std::string now;               ///< values as one writes them
    std::string chosen;
    std::string reason;             ///< a sentence; also why nothing could be measured
    std::vector<SizeCosts> effect;  ///< now beside chosen, at sizes that change and some others
    std::vector<bool> changes;      ///< of each size in `effect`
    bool accepted = false;  ///< the change wins somewhere beyond the spread, and on the whole
    std::string verdict;    ///< a sentence
};

/// Does the second win somewhere beyond the spread, and on the whole?
[[nodiscard]] bool second_wins(const std::vector<SizeCosts>& sizes);

/// Fills `accepted` and `verdict` from `effect`.
void decide(SettingStudy& study);

}  // namespace via::tool
