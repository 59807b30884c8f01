// SPDX-License-Identifier: BSD-3-Clause
// A timeline as a picture: a row for each resource, a colour for each stage, and in each bar the
// number of the message.
#pragma once

#include <string>

#include "drawing.hpp"
#include "timeline.hpp"

namespace via::tool {

[[nodiscard]] Drawing draw_gantt(const Timeline& timeline, const std::string& title);

}  // namespace via::tool
