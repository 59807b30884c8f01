// SPDX-License-Identifier: BSD-3-Clause
// Files that a command leaves in its folder for results, and the pictures that gnuplot draws there.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace via::tool {

/// With all folders above it; it may be there already.
[[nodiscard]] base::Result<void> create_folder(const std::string& folder);
[[nodiscard]] base::Result<void> write_text_file(const std::string& path, const std::string& text);
/// NotFound: gnuplot is not installed.
[[nodiscard]] base::Result<void> run_gnuplot(const std::string& script_path);
/// A string in gnuplot's single quotes, in which nothing else has a meaning.
[[nodiscard]] std::string gnuplot_quoted(std::string_view text);

}  // namespace via::tool
