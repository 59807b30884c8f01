// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/sensitivity.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace via::sim {
namespace {

TEST(Sensitivity, NamesWhatAFigureOwesToAFittedValue) {
    const auto influences = headline_influences();
    ASSERT_TRUE(influences) << influences.error().sentence;
    double before = Figure::no_end;
    for (const Influence& each : influences.value()) {
        EXPECT_TRUE(each.parameter.origin == Origin::Fitted ||
                    each.parameter.origin == Origin::Guessed)
            << each.parameter.name;
        EXPECT_TRUE(each.figure->headline);
        EXPECT_GT(each.greatest(), 0);
        EXPECT_LE(each.greatest(), before);
        before = each.greatest();
    }
    const auto peak = std::find_if(
        influences.value().begin(), influences.value().end(), [](const Influence& each) {
            return each.file == "p3-733.machine" && each.parameter.name == "fetch_overhead" &&
                   each.figure->what == "LANai 4: peak bandwidth of MyVIA";
        });
    ASSERT_NE(peak, influences.value().end());
    // A bus that costs less is a faster one.
    EXPECT_GT(peak->less_percent, 1);
    EXPECT_LT(peak->more_percent, -1);
}

}  // namespace
}  // namespace via::sim
