// SPDX-License-Identifier: BSD-3-Clause
// Holding a thread on one processor.
#pragma once

#include <sched.h>

#include "base/result.hpp"

namespace via::bare {

/// Moves the calling thread to one processor. No allocation on success: a forked child calls it.
[[nodiscard]] base::Result<void> pin_to(int core);

/// Pins for a scope and gives the thread back the processors it had.
class PinnedScope {
  public:
    [[nodiscard]] static base::Result<PinnedScope> on(int core);
    PinnedScope(PinnedScope&& other) noexcept : before_(other.before_), armed_(other.armed_) {
        other.armed_ = false;
    }
    PinnedScope& operator=(PinnedScope&&) = delete;
    PinnedScope(const PinnedScope&) = delete;
    PinnedScope& operator=(const PinnedScope&) = delete;
    ~PinnedScope() {
        if (armed_) ::sched_setaffinity(0, sizeof before_, &before_);
    }

  private:
    explicit PinnedScope(const cpu_set_t& before) : before_(before) {}
    cpu_set_t before_;
    bool armed_ = true;
};

}  // namespace via::bare
