// SPDX-License-Identifier: BSD-3-Clause
// Numbers and times as they fit into a column.
#pragma once

#include <cstdint>
#include <string>

namespace via::tool {

/// 1234567 as "1.23M".
[[nodiscard]] std::string short_number(double value);
[[nodiscard]] std::string short_number(std::uint64_t value);

/// "2026-11-15 17:41:03", in the time of the place.
[[nodiscard]] std::string time_text(std::int64_t wall_ns);

}  // namespace via::tool
