// SPDX-License-Identifier: BSD-3-Clause
// What is measured, and how its values are shown.
#pragma once

#include <string>
#include <string_view>

namespace via::bench {

enum class Quantity { OneWayMicroseconds, MessagesPerSecond, BytesPerSecond, Kibibytes, Percent };

/// The unit of the stored value: "us", "messages/s", "bytes/s", "KiB", "%".
[[nodiscard]] std::string_view unit_of(Quantity quantity);

/// For people: "0.123 µs", "12.3 M/s", "34.5 GB/s", "28.1 KiB", "0.003 %".
[[nodiscard]] std::string show(double value, Quantity quantity);

/// "8 B", "4 KB", "1 MB".
[[nodiscard]] std::string show_bytes(std::size_t bytes);

}  // namespace via::bench
