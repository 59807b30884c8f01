// SPDX-License-Identifier: BSD-3-Clause
// A bar that says how much is done, how long the rest will take and what runs now.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace via::bench {

/// How long the rest takes. Steps are of kinds; as long as the last of its kind, the next one
/// takes.
class TimeLeft {
  public:
    /// `times` steps that take about `seconds` each. The number of the kind.
    std::size_t add(double seconds, std::size_t times);
    void taken(std::size_t kind, double seconds);
    /// A step that was not taken, and will not be.
    void left_out(std::size_t kind);

    /// Kinds of which none was taken yet are as much wrong as the others were, taken together.
    [[nodiscard]] double seconds() const;

  private:
    struct Kind {
        double expected = 0;
        double measured = -1;  ///< of the last step; negative: none yet
        std::size_t left = 0;
    };
    std::vector<Kind> kinds_;
};

class Progress {
  public:
    /// On a terminal the line is redrawn; elsewhere one is printed now and then.
    /// Whatever is left, after `most_seconds` (if not 0) it will be over.
    explicit Progress(TimeLeft left, double most_seconds = 0);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void begin(std::size_t kind, std::string_view what);
    /// The step that was begun. Its seconds.
    double end();
    void left_out(std::size_t kind) { left_.left_out(kind); }
    [[nodiscard]] double elapsed() const;

  private:
    TimeLeft left_;
    double most_seconds_;
    std::size_t kind_ = 0;
    bool terminal_;
    base::Nanoseconds begin_;
    base::Nanoseconds step_begin_ = 0;
    base::Nanoseconds last_line_ = 0;
};

/// "[████████············]  40 %, 2 min 05 s left: 8 B latency", at most `columns` wide.
[[nodiscard]] std::string progress_line(double elapsed, double left, std::string_view what,
                                        std::size_t columns);

/// "45 s", "2 min 05 s".
[[nodiscard]] std::string show_seconds(double seconds);

}  // namespace via::bench
