// SPDX-License-Identifier: BSD-3-Clause
// Sleeping on a word, also one that lies in memory shared between processes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace via::base {

enum class FutexScope { Process, Shared };

/// Sleeps while `word == expected`, until woken or the deadline. May return early; callers
/// re-check.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline,
                FutexScope scope) noexcept;
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope) noexcept;

}  // namespace via::base
