// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "sim/core/rate.hpp"

namespace via::sim {

/// A clock that ticks at time 0. cycles(n) is exact to a picosecond for every n; asking for one
/// cycle n times adds up n roundings.
class Clock {
  public:
    explicit constexpr Clock(std::uint64_t hertz) : rate_(hertz) {}

    [[nodiscard]] constexpr std::uint64_t hertz() const noexcept { return rate_.per_second(); }
    [[nodiscard]] constexpr Time cycles(std::uint64_t count) const noexcept {
        return rate_.time_for(count);
    }

  private:
    Rate rate_;
};

}  // namespace via::sim
