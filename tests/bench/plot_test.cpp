// SPDX-License-Identifier: BSD-3-Clause
#include "plot.hpp"

#include <gtest/gtest.h>

namespace via::bench {
namespace {

std::vector<CurveResult> curves() {
    return {
        {"via, heap", Quantity::OneWayMicroseconds, {{8, {0.3, 0.1, 0.2}}, {16, {0.4}}}, ""},
        {"UCX", Quantity::OneWayMicroseconds, {{16, {0.5}}}, ""},
        {"Open MPI", Quantity::OneWayMicroseconds, {}, "install it"},
        {"memcpy", Quantity::BytesPerSecond, {{8, {2e9}}}, ""},
    };
}

TEST(PlotData, HasAColumnPerCurveAndMarksHoles) {
    EXPECT_EQ(plot_data(curves(), Quantity::OneWayMicroseconds),
              "# bytes\tvia, heap (us)\tUCX (us)\n"
              "8\t0.2\t?\n"
              "16\t0.4\t0.5\n");
}

TEST(PlotScript, NamesDataImageAndCurves) {
    const std::string script =
        plot_script(curves(), Quantity::OneWayMicroseconds, "a \"b\".dat", "out.png", "machine");
    EXPECT_NE(script.find("set output \"out.png\""), std::string::npos);
    EXPECT_NE(script.find("\"a \\\"b\\\".dat\" using 1:(column(2)) title \"via, heap\""),
              std::string::npos);
    EXPECT_NE(script.find("column(3)) title \"UCX\""), std::string::npos);
    EXPECT_EQ(script.find("Open MPI"), std::string::npos) << "a curve without points is not drawn";
    const std::string stream =
        plot_script(curves(), Quantity::BytesPerSecond, "d.dat", "o.png", "machine");
    EXPECT_NE(stream.find("(column(2)/1e9) title \"memcpy\""), std::string::npos);
}

TEST(PlotScript, IsEmptyWithoutCurves) {
    EXPECT_EQ(plot_script({}, Quantity::OneWayMicroseconds, "d", "o", "m"), "");
}

}  // namespace
}  // namespace via::bench
