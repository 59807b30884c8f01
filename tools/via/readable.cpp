// SPDX-License-Identifier: BSD-3-Clause
#include "readable.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <time.h>

#include <array>

namespace via::tool {

std::string short_number(double value) {
    static constexpr std::array suffixes{"", "k", "M", "G", "T", "P", "E"};
    std::size_t suffix = 0;
    while (value >= 999.5 && suffix + 1 < suffixes.size()) {
        value /= 1000;
        ++suffix;
    }
    if (suffix == 0) return fmt::format("{:.0f}", value);
    return fmt::format("{:.{}f}{}", value,
                       value < 9.995   ? 2
                       : value < 99.95 ? 1
                                       : 0,
                       suffixes[suffix]);
}

std::string short_number(std::uint64_t value) {
    return short_number(static_cast<double>(value));
}

std::string time_text(std::int64_t wall_ns) {
    const time_t seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
    tm parts{};
    if (wall_ns < 0 || localtime_r(&seconds, &parts) == nullptr) return "?";
    return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

}  // namespace via::tool
