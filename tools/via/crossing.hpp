// SPDX-License-Identifier: BSD-3-Clause
// From which message size on one way is better than another, from measurements that are noisy.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace via::tool {

/// What one size costs in each of two ways; the same unit, positive.
struct CostPair {
    std::uint64_t bytes = 0;
    double first = 0;
    double second = 0;
};

struct Crossing {
    enum class Kind {
        Never,   ///< the second way is nowhere ahead for good
        Always,  ///< it is from the smallest size on
        From,    ///< it is from `bytes` on
    };
    Kind kind = Kind::Never;
    std::uint64_t bytes = 0;  ///< From, and Always: the smallest size that was measured
};

/// Where to change over to the second way, once and for all larger sizes, so that the costs of all
/// sizes together (by ratio) are least. A size that stands alone against both its neighbours does
/// not count as what it is but as the middle one of the three. `sizes` ascend.
[[nodiscard]] Crossing find_crossing(std::span<const CostPair> sizes);

/// The value of a threshold setting ("from this size on the second way") within its legal range.
/// Never: beyond all that was measured, or `now` if that is still larger.
[[nodiscard]] std::uint64_t threshold_for(const Crossing& crossing, std::span<const CostPair> sizes,
                                          std::uint64_t now, std::uint64_t minimum,
                                          std::uint64_t maximum);

}  // namespace via::tool
