// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <stdexcept>

#include "sim/core/time.hpp"
#include "sim/core/wide.hpp"

namespace via::sim {

/// So many bytes, cycles or other things a second.
class Rate {
  public:
    explicit constexpr Rate(std::uint64_t per_second) : per_second_(per_second) {
        if (per_second == 0) throw std::invalid_argument("at a rate of 0 a second nothing ends");
    }

    [[nodiscard]] constexpr std::uint64_t per_second() const noexcept { return per_second_; }

    /// To the nearest picosecond, half of one rounded up; `forever` if longer than time can be.
    [[nodiscard]] constexpr Time time_for(std::uint64_t count) const noexcept {
        const Wide time =
            (Wide{count} * static_cast<std::uint64_t>(second) + per_second_ / 2) / per_second_;
        return time < static_cast<Wide>(forever) ? static_cast<Time>(time) : forever;
    }

  private:
    std::uint64_t per_second_;
};

}  // namespace via::sim
