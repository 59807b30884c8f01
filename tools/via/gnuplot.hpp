// SPDX-License-Identifier: BSD-3-Clause
// Pictures drawn by gnuplot, from files that stay beside them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace via::tool {

[[nodiscard]] base::Result<void> make_folder(const std::string& folder);
[[nodiscard]] base::Result<void> write_file(const std::string& path, const std::string& text);

/// Runs the script in a process that is watched over. NotFound: gnuplot is not installed.
[[nodiscard]] base::Result<void> run_gnuplot(const std::string& script);

/// A string in gnuplot's double quotes.
[[nodiscard]] std::string gnuplot_quoted(std::string_view text);

}  // namespace via::tool
