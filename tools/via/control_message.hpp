// SPDX-License-Identifier: BSD-3-Clause
// What the two sides of a measurement say to each other: JSON objects with a "kind".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace via::tool {

[[nodiscard]] std::string encode_message(const nlohmann::json& message);

/// From another process. A message of the kind "error" comes back as that error (Code::System).
[[nodiscard]] base::Result<nlohmann::json> decode_message(std::string_view text);

/// A member that must be a number that is not negative; 0 if it is not there or no such number.
[[nodiscard]] std::uint64_t number_member(const nlohmann::json& message, const char* member);

}  // namespace via::tool
