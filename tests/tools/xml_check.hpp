// SPDX-License-Identifier: BSD-3-Clause
// Is this well-formed XML? As much of the rules as pictures need.
#pragma once

#include <string>

namespace via::tool::test {

/// What is wrong, or nothing.
[[nodiscard]] std::string xml_fault(const std::string& text);

}  // namespace via::tool::test
