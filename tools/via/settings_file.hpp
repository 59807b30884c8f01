// SPDX-License-Identifier: BSD-3-Clause
// Changing values in a settings file, and nothing else in it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace via::tool {

using NewSettings = std::vector<std::pair<std::string, std::string>>;  ///< NAME, value

/// The text with these values: a line that sets one of the names is changed in its place, its
/// comment stays; names without a line are added at the end. `comment` becomes a line "# <mark>
/// <comment>" before the first of them; an older line with that mark goes.
[[nodiscard]] std::string rewrite_settings(std::string_view text, const NewSettings& values,
                                           std::string_view mark, std::string_view comment);

/// Can replace_file() be expected to succeed? For asking before long work.
[[nodiscard]] base::Result<void> check_replaceable(const std::string& path);

/// Puts the text in the place of the file in one step, so that a reader sees the old one or the new
/// one. The file keeps its mode; missing folders are made; a symbolic link stays one. What is no
/// ordinary file is refused.
[[nodiscard]] base::Result<void> replace_file(const std::string& path, const std::string& text);

}  // namespace via::tool
