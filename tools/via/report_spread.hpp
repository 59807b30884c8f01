// SPDX-License-Identifier: BSD-3-Clause
// What repeated measurements say together, as reports hold it.
#pragma once

#include <cstddef>

namespace via::tool {

struct ReportSpread {
    std::size_t count = 0;
    double median = 0;
    double minimum = 0;
    double lower_quartile = 0;
    double upper_quartile = 0;
    double maximum = 0;
};

}  // namespace via::tool
