// SPDX-License-Identifier: BSD-3-Clause
// Simulated time: whole picoseconds, so that sums are exact and a run can be repeated to the bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace via::sim {

/// A moment since the start of the simulation, or a length of time: 106 days at most.
using Time = std::int64_t;

inline constexpr Time picosecond = 1;
inline constexpr Time nanosecond = 1000 * picosecond;
inline constexpr Time microsecond = 1000 * nanosecond;
inline constexpr Time millisecond = 1000 * microsecond;
inline constexpr Time second = 1000 * millisecond;
inline constexpr Time forever = std::numeric_limits<Time>::max();

/// Only where numbers come in or go out; in between time stays whole.
[[nodiscard]] inline Time microseconds(double count) noexcept {
    return std::llround(count * static_cast<double>(microsecond));
}
[[nodiscard]] inline Time nanoseconds(double count) noexcept {
    return std::llround(count * static_cast<double>(nanosecond));
}
[[nodiscard]] constexpr double in_microseconds(Time time) noexcept {
    return static_cast<double>(time) / static_cast<double>(microsecond);
}

}  // namespace via::sim
