// SPDX-License-Identifier: BSD-3-Clause
// What is measured, and how its values are shown.
#pragma once

#include <string>
#include <string_view>

namespace via::bench {

enum class Quantity {
    OneWayMicroseconds,
    MessagesPerSecond,
    BytesPerSecond,
    Kibibytes,
    Percent,
    Milliseconds,
    CpuSecondsPerGigabyte
};

[[nodiscard]] bool less_is_better(Quantity quantity);

/// The unit of the stored value: "us", "messages/s", "bytes/s", "KiB", "%", "ms", "s/GB".
[[nodiscard]] std::string_view unit_of(Quantity quantity);

/// For people: "0.123 µs", "12.3 M/s", "34.5 GB/s", "28.1 KiB", "0.003 %", "4.2 ms".
[[nodiscard]] std::string show(double value, Quantity quantity);

/// "8 B", "4 KB", "1 MB".
[[nodiscard]] std::string show_bytes(std::size_t bytes);

}  // namespace via::bench
