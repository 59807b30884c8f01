// SPDX-License-Identifier: BSD-3-Clause
// A line that says what runs now and how long it will still take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace via::bench {

class Progress {
  public:
    /// On a terminal the line is redrawn; elsewhere one is printed now and then.
    explicit Progress(std::size_t steps);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void step(std::string_view what);
    void skip(std::size_t steps) { done_ += steps; }

  private:
    std::size_t steps_;
    std::size_t done_ = 0;
    bool terminal_;
    base::Nanoseconds begin_;
    base::Nanoseconds last_line_ = 0;
};

/// "45 s", "2 min 05 s".
[[nodiscard]] std::string show_seconds(double seconds);

}  // namespace via::bench
