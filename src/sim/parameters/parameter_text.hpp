// SPDX-License-Identifier: BSD-3-Clause
// The form of a parameter file: one value a line, with its unit, where it comes from and why.
//
//     pio_per_byte = 26.47 ns/byte derived "3.5 clocks of the bus for a word"
//
// Blank lines and lines that begin with # mean nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace via::sim {

enum class Origin : std::uint8_t {
    Paper,    ///< printed in one of the papers
    Source,   ///< printed elsewhere; the reason names the page
    Derived,  ///< computed from printed figures
    Fitted,   ///< chosen so that printed figures come out
    Guessed   ///< nobody knows; the figures hardly depend on it
};
[[nodiscard]] std::string_view origin_name(Origin origin) noexcept;

struct ParameterLine {
    double value = 0;
    std::string unit;
    Origin origin = Origin::Guessed;
    std::string reason;
    int line = 0;
};

/// By name. Errors are InvalidArgument and begin with "file:line: ".
using ParameterLines = std::map<std::string, ParameterLine, std::less<>>;
[[nodiscard]] base::Result<ParameterLines> parse_parameters(std::string_view text,
                                                            std::string_view file);

}  // namespace via::sim
