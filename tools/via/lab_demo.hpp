// SPDX-License-Identifier: BSD-3-Clause
// `via lab demo`: a stream over two links, one of which is cut and comes back.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace via::tool {

struct LabDemoOptions {
    double seconds = 8;   ///< how long the stream should take
    double cut = 2;       ///< when link 1 is cut
    double back = 5;      ///< when it comes back
    double rate = 1e9;    ///< of each link, bits a second
    bool silent = false;  ///< cut without a sign: packets vanish, interfaces stay up
    bool json = false;
    std::string chart;  ///< files of gnuplot with this path, without .svg; empty: none
};

/// Makes a lab of its own and takes it down again, also when a signal breaks it off.
[[nodiscard]] base::Result<void> run_lab_demo(const LabDemoOptions& options);

}  // namespace via::tool
