// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace via::bench {

Progress::Progress(std::size_t steps)
    : steps_(steps), terminal_(::isatty(STDERR_FILENO) != 0), begin_(base::monotonic_now()) {}

Progress::~Progress() {
    if (terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::step(std::string_view what) {
    const base::Nanoseconds now = base::monotonic_now();
    const std::size_t gone = std::min(done_, steps_);
    ++done_;
    constexpr base::Nanoseconds between_lines = 10'000'000'000;
    if (!terminal_ && last_line_ != 0 && now - last_line_ < between_lines) return;
    last_line_ = now;
    std::string left;
    if (gone >= 3) {
        const double each = static_cast<double>(now - begin_) / static_cast<double>(gone);
        left = ", " + show_seconds(each * static_cast<double>(steps_ - gone) / 1e9) + " left";
    }
    fmt::print(stderr, "{}[{}/{}{}] {}{}", terminal_ ? "\r\033[K" : "", gone + 1, steps_, left,
               what, terminal_ ? "" : "\n");
    std::fflush(stderr);
}

std::string show_seconds(double seconds) {
    const long whole = std::lround(seconds);
    if (whole < 60) return fmt::format("{} s", whole);
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

}  // namespace via::bench
