// SPDX-License-Identifier: BSD-3-Clause
#include "crossing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace via::tool {
namespace {

double middle(double a, double b, double c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace

Crossing find_crossing(std::span<const CostPair> sizes) {
    // Below zero: the second way costs less.
    std::vector<double> ratios;
    for (const CostPair& size : sizes)
        ratios.push_back(size.first > 0 && size.second > 0 ? std::log(size.second / size.first)
                                                           : 0);
    std::vector<double> smooth = ratios;
    for (std::size_t i = 1; i + 1 < ratios.size(); ++i)
        smooth[i] = middle(ratios[i - 1], ratios[i], ratios[i + 1]);

    // Each place to change over, from the last back: what all from there on would cost.
    double total = 0;
    double least = 0;
    std::size_t best = sizes.size();
    for (std::size_t i = sizes.size(); i-- > 0;) {
        total += smooth[i];
        if (total < least) {
            least = total;
            best = i;
        }
    }
    if (best == sizes.size()) return {};
    return {best == 0 ? Crossing::Kind::Always : Crossing::Kind::From, sizes[best].bytes};
}

std::uint64_t threshold_for(const Crossing& crossing, std::span<const CostPair> sizes,
                            std::uint64_t now, std::uint64_t minimum, std::uint64_t maximum) {
    std::uint64_t value = crossing.bytes;
    if (crossing.kind == Crossing::Kind::Never)
        value = std::max(now, sizes.empty() ? now : sizes.back().bytes + 1);
    return std::clamp(value, minimum, maximum);
}

}  // namespace via::tool
