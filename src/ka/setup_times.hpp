// SPDX-License-Identifier: BSD-3-Clause
// How long the two ends of setting up a connection between hosts wait for each other.
#pragma once

#include <string>

#include "base/clock.hpp"

namespace via::ka::setup_times {

inline constexpr base::Nanoseconds millisecond = 1'000'000;
inline constexpr base::Nanoseconds second = 1'000'000'000;
/// How soon a question is repeated, and how seldom at last.
inline constexpr base::Nanoseconds first_pause = 20 * millisecond;
inline constexpr base::Nanoseconds last_pause = 250 * millisecond;
/// A host that says nothing for so long is not there, however long the process would wait.
inline constexpr base::Nanoseconds answer_patience = 10 * second;
/// A cookie is good in the time slot in which it was made and in the next.
inline constexpr base::Nanoseconds cookie_slot = 8 * second;
/// A requester repeats itself far more often than this.
inline constexpr base::Nanoseconds requester_patience = 3 * second;
/// How long an acceptor waits for the requester to take what it asked for.
inline constexpr base::Nanoseconds confirm_patience = 2 * second;
/// A failure is kept so long, if the requester does not say that it knows.
inline constexpr base::Nanoseconds failure_time = 3 * second;
inline constexpr int farewell_repeats = 2;
inline constexpr base::Nanoseconds farewell_pause = 50 * millisecond;

inline std::string in_milliseconds(base::Nanoseconds time) {
    return std::to_string(time / millisecond) + " ms";
}

}  // namespace via::ka::setup_times
