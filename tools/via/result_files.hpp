// SPDX-License-Identifier: BSD-3-Clause
// Files that a command leaves in its folder for results, and the pictures that gnuplot draws there.
#pragma once

#include <string>

#include "base/result.hpp"

namespace via::tool {

/// With all folders above it; it may be there already.
[[nodiscard]] base::Result<void> create_folder(const std::string& folder);
[[nodiscard]] base::Result<void> write_text_file(const std::string& path, const std::string& text);
/// NotFound: gnuplot is not installed.
[[nodiscard]] base::Result<void> run_gnuplot(const std::string& script_path);

}  // namespace via::tool
