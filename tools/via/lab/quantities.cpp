// SPDX-License-Identifier: BSD-3-Clause
#include "quantities.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace via::lab {
namespace {

struct Unit {
    std::string_view name;
    double worth;
};

// Largest first: the first that fits is the one to write.
constexpr std::array<Unit, 4> rate_units{{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}};
constexpr std::array<Unit, 4> time_units{{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};
constexpr std::array<Unit, 1> share_units{{{"%", all_parts / 100.0}}};

/// A number and its unit, in the smallest one, rounded; no value: not understood.
std::optional<std::uint64_t> parse(std::string_view text, std::span<const Unit> units,
                                   double most) {
    if (text == "off") return 0;
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
    const std::string_view name(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    for (const Unit& unit : units)
        if (unit.name == name && number * unit.worth <= most)
            return static_cast<std::uint64_t>(std::llround(number * unit.worth));
    return std::nullopt;
}

std::string write(std::uint64_t value, std::span<const Unit> units) {
    if (value == 0) return "off";
    for (const Unit& unit : units) {
        const auto worth = static_cast<std::uint64_t>(unit.worth);
        // 1.5gbit is better to read than 1500mbit, 1234567bit is not worse than 1.234567mbit.
        if (value >= worth && value % (worth < 10 ? 1 : worth / 10) == 0)
            return fmt::format("{}{}", static_cast<double>(value) / unit.worth, unit.name);
    }
    return fmt::format("{}{}", value, units.back().name);
}

}  // namespace

base::Result<PartsPerMillion> parse_share(std::string_view text) {
    const auto share = parse(text, share_units, all_parts);
    if (!share)
        return {base::Code::InvalidArgument,
                fmt::format("'{}' is no share of the packets, such as 2%, 0.05% or off", text)};
    return static_cast<PartsPerMillion>(*share);
}

base::Result<std::uint64_t> parse_rate(std::string_view text) {
    const auto rate = parse(text, rate_units, 1e12);
    // Slower than this a train of packets would not leave within the patience of anybody.
    if (!rate || (*rate != 0 && *rate < 8000))
        return {base::Code::InvalidArgument,
                fmt::format("'{}' is no rate from 8kbit to 1000gbit, such as 1gbit, 250mbit or off",
                            text)};
    return *rate;
}

base::Result<base::Nanoseconds> parse_delay(std::string_view text) {
    const auto delay = parse(text, time_units, 10e9);
    if (!delay)
        return {base::Code::InvalidArgument,
                fmt::format("'{}' is no delay up to 10s, such as 200us, 5ms or off", text)};
    return static_cast<base::Nanoseconds>(*delay);
}

std::string share_text(PartsPerMillion share) {
    return share == 0 ? "off" : fmt::format("{}%", share / 10'000.0);
}

std::string rate_text(std::uint64_t bits_per_second) {
    return write(bits_per_second, rate_units);
}

std::string delay_text(base::Nanoseconds delay) {
    return write(static_cast<std::uint64_t>(delay), time_units);
}

}  // namespace via::lab
