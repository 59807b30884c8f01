// SPDX-License-Identifier: BSD-3-Clause
#include "quantity.hpp"

#include <fmt/format.h>

namespace via::tool {

namespace {

/// Three figures and a prefix: 1234567 becomes "1.23 M".
std::string with_prefix(double value) {
    struct Prefix {
        double factor;
        std::string_view letter;
    };
    constexpr Prefix prefixes[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    for (const Prefix& prefix : prefixes) {
        if (value >= prefix.factor || prefix.factor == 1) {
            const double scaled = value / prefix.factor;
            const int decimals = scaled < 10 ? 2 : scaled < 100 ? 1 : 0;
            return fmt::format("{:.{}f} {}", scaled, decimals, prefix.letter);
        }
    }
    return {};
}

}  // namespace

bool less_is_better(Quantity quantity) {
    return quantity != Quantity::MessagesPerSecond && quantity != Quantity::BytesPerSecond &&
           quantity != Quantity::EventsPerSecond;
}

std::string_view unit_of(Quantity quantity) {
    switch (quantity) {
        case Quantity::OneWayMicroseconds:
            return "us";
        case Quantity::MessagesPerSecond:
            return "messages/s";
        case Quantity::BytesPerSecond:
            return "bytes/s";
        case Quantity::Kibibytes:
            return "KiB";
        case Quantity::Percent:
            return "%";
        case Quantity::Milliseconds:
            return "ms";
        case Quantity::CpuSecondsPerGigabyte:
            return "s/GB";
        case Quantity::EventsPerSecond:
            return "events/s";
    }
    return "";
}

std::optional<Quantity> quantity_of(std::string_view unit) {
    for (const Quantity quantity :
         {Quantity::OneWayMicroseconds, Quantity::MessagesPerSecond, Quantity::BytesPerSecond,
          Quantity::Kibibytes, Quantity::Percent, Quantity::Milliseconds,
          Quantity::CpuSecondsPerGigabyte, Quantity::EventsPerSecond}) {
        if (unit_of(quantity) == unit) return quantity;
    }
    return std::nullopt;
}

std::string show(double value, Quantity quantity) {
    switch (quantity) {
        case Quantity::OneWayMicroseconds:
            return fmt::format("{:.{}f} µs", value, value < 10 ? 3 : value < 100 ? 2 : 1);
        case Quantity::MessagesPerSecond:
        case Quantity::EventsPerSecond:
            return with_prefix(value) + "/s";
        case Quantity::BytesPerSecond:
            return with_prefix(value) + "B/s";
        case Quantity::Kibibytes:
            return fmt::format("{:.1f} KiB", value);
        case Quantity::Percent:
            return fmt::format("{:.{}f} %", value, value < 10 ? 3 : 1);
        case Quantity::Milliseconds:
            return fmt::format("{:.1f} ms", value);
        case Quantity::CpuSecondsPerGigabyte:
            return fmt::format("{:.3f} s/GB", value);
    }
    return {};
}

std::string show_bytes(std::size_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MB", bytes >> 20);
    if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KB", bytes >> 10);
    return fmt::format("{} B", bytes);
}

}  // namespace via::tool
