// SPDX-License-Identifier: BSD-3-Clause
// Where the values come from.
#pragma once

#include <string>

namespace via::bench {

struct Machine {
    std::string processor;
    std::string kernel;
    std::string time;  ///< UTC, ISO 8601
    long processors = 0;
    double load = 0;  ///< runnable processes, mean of the last minute
};

[[nodiscard]] Machine this_machine();

}  // namespace via::bench
