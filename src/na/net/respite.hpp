// SPDX-License-Identifier: BSD-3-Clause
// How long whoever waits for a message of a stream may leave its connection alone. Pieces come of
// which none is the last. To look for each of them at once costs a processor and gains nothing:
// they gather in the socket, and are taken in faster than they came.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace via::na::net {

class Respite {
  public:
    /// What comes during it has to fit into what the peer may send unanswered, and the answer will
    /// be late by as much.
    static constexpr base::Nanoseconds longest = 50'000;
    /// Falling asleep and waking up take some microseconds.
    static constexpr base::Nanoseconds shortest = 10'000;
    /// Less than this tells no rate.
    static constexpr std::uint64_t least_bytes = 64U << 10U;

    /// Of the message `number` so many bytes are missing, and all that has come was taken. Half the
    /// time that they will need at the rate until now: so it is over before the message is.
    [[nodiscard]] base::Nanoseconds span(std::uint64_t number, std::uint64_t missing,
                                         base::Nanoseconds now) noexcept {
        if (number != number_ || missing > missing_at_first_) {
            number_ = number;
            missing_at_first_ = missing;
            since_ = now;
        }
        const std::uint64_t came = missing_at_first_ - missing;
        if (came < least_bytes) return 0;
        const double half = static_cast<double>(now - since_) / static_cast<double>(came) *
                            static_cast<double>(missing) / 2;
        if (half < static_cast<double>(shortest)) return 0;
        return static_cast<base::Nanoseconds>(std::min(half, static_cast<double>(longest)));
    }

  private:
    std::uint64_t number_ = 0;
    std::uint64_t missing_at_first_ = 0;  ///< when the message was first looked at,
    base::Nanoseconds since_ = 0;         ///< and when that was
};

}  // namespace via::na::net
