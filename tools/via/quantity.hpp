// SPDX-License-Identifier: BSD-3-Clause
// What benchmarks measure, and how the values are shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace via::tool {

enum class Quantity : std::uint8_t {
    OneWayMicroseconds,
    MessagesPerSecond,
    BytesPerSecond,
    Kibibytes,
    Percent,
    Milliseconds,
    CpuSecondsPerGigabyte,
    EventsPerSecond
};

[[nodiscard]] bool less_is_better(Quantity quantity);

/// The unit of the stored value: "us", "messages/s", "bytes/s", "KiB", "%", "ms", "s/GB",
/// "events/s".
[[nodiscard]] std::string_view unit_of(Quantity quantity);

/// The quantity that is stored in that unit.
[[nodiscard]] std::optional<Quantity> quantity_of(std::string_view unit);

/// For people: "0.123 µs", "12.3 M/s", "34.5 GB/s", "28.1 KiB", "0.003 %", "4.2 ms".
[[nodiscard]] std::string show(double value, Quantity quantity);

/// "8 B", "4 KB", "1 MB".
[[nodiscard]] std::string show_bytes(std::size_t bytes);

}  // namespace via::tool
