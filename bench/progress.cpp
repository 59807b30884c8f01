// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "via/text_table.hpp"

namespace via::bench {

namespace {

constexpr std::size_t bar_columns = 20;

std::size_t terminal_columns() {
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

double seconds_between(base::Nanoseconds from, base::Nanoseconds to) {
    return static_cast<double>(to - from) / 1e9;
}

}  // namespace

std::size_t TimeLeft::add(double seconds, std::size_t times) {
    kinds_.push_back({seconds, -1, times});
    return kinds_.size() - 1;
}

void TimeLeft::taken(std::size_t kind, double seconds) {
    left_out(kind);
    kinds_[kind].measured = seconds;
}

void TimeLeft::left_out(std::size_t kind) {
    if (kinds_[kind].left > 0) --kinds_[kind].left;
}

double TimeLeft::seconds() const {
    double expected = 0;
    double measured = 0;
    for (const Kind& kind : kinds_) {
        if (kind.measured < 0) continue;
        expected += kind.expected;
        measured += kind.measured;
    }
    const double factor = expected > 0 ? measured / expected : 1;
    double sum = 0;
    for (const Kind& kind : kinds_)
        sum += static_cast<double>(kind.left) *
               (kind.measured < 0 ? kind.expected * factor : kind.measured);
    return sum;
}

Progress::Progress(TimeLeft left, double most_seconds)
    : left_(std::move(left)),
      most_seconds_(most_seconds),
      terminal_(::isatty(STDERR_FILENO) != 0),
      begin_(base::monotonic_now()) {}

Progress::~Progress() {
    if (terminal_) fmt::print(stderr, "\r\033[K");
}

double Progress::elapsed() const {
    return seconds_between(begin_, base::monotonic_now());
}

void Progress::begin(std::size_t kind, std::string_view what) {
    const base::Nanoseconds now = base::monotonic_now();
    kind_ = kind;
    step_begin_ = now;
    constexpr base::Nanoseconds between_lines = 10'000'000'000;
    if (!terminal_ && last_line_ != 0 && now - last_line_ < between_lines) return;
    last_line_ = now;
    const double gone = seconds_between(begin_, now);
    double left = left_.seconds();
    if (most_seconds_ > 0) left = std::min(left, std::max(most_seconds_ - gone, 0.0));
    const std::string line =
        progress_line(gone, left, what, terminal_ ? terminal_columns() - 1 : 200);
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ ? "" : "\n");
    std::fflush(stderr);
}

double Progress::end() {
    const double seconds = seconds_between(step_begin_, base::monotonic_now());
    left_.taken(kind_, seconds);
    return seconds;
}

std::string progress_line(double elapsed, double left, std::string_view what, std::size_t columns) {
    const double share = elapsed + left > 0 ? elapsed / (elapsed + left) : 0;
    const auto full = static_cast<std::size_t>(share * bar_columns);
    std::string bar;
    for (std::size_t column = 0; column < bar_columns; ++column)
        bar += column < full ? "█" : "·";
    return std::string(tool::clip(fmt::format("[{}] {:3.0f} %, {} left: {}", bar,
                                              std::floor(share * 100), show_seconds(left), what),
                                  columns));
}

std::string show_seconds(double seconds) {
    const long whole = std::lround(seconds);
    if (whole < 60) return fmt::format("{} s", whole);
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

}  // namespace via::bench
