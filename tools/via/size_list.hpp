// SPDX-License-Identifier: BSD-3-Clause
// Message sizes as people write them: "8", "4k", "8,64,4k", "8:4m" (doubling), "8:4m:4".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace via::tool {

inline constexpr std::size_t max_sizes = 256;

/// A whole number with an optional suffix k, m or g (powers of 1024; "kb" and "KiB" are the same).
[[nodiscard]] base::Result<std::uint64_t> parse_size(std::string_view text);

/// One or many sizes, in the order given. Never empty.
[[nodiscard]] base::Result<std::vector<std::uint64_t>> parse_size_list(std::string_view text);

/// "8", "4k", "1m": the shortest form that parse_size reads back as the same number.
[[nodiscard]] std::string format_size(std::uint64_t bytes);

}  // namespace via::tool
