// SPDX-License-Identifier: BSD-3-Clause
// How people write what a link shall be like: "2%", "1gbit", "200us", "off".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace via::lab {

/// A share of the packets: whole numbers, so that what is written is what is read back.
using PartsPerMillion = std::uint32_t;
inline constexpr PartsPerMillion all_parts = 1'000'000;

/// "2%", "0.05%" or "off".
[[nodiscard]] base::Result<PartsPerMillion> parse_share(std::string_view text);
/// Bits per second: "1gbit", "250mbit", "64kbit"; "off" is 0.
[[nodiscard]] base::Result<std::uint64_t> parse_rate(std::string_view text);
/// "200us", "5ms", "1s"; "off" is 0.
[[nodiscard]] base::Result<base::Nanoseconds> parse_delay(std::string_view text);

// The same way round, without a loss; what is 0 is "off".
[[nodiscard]] std::string share_text(PartsPerMillion share);
[[nodiscard]] std::string rate_text(std::uint64_t bits_per_second);
[[nodiscard]] std::string delay_text(base::Nanoseconds delay);

}  // namespace via::lab
