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

TEST(PlotRates, AreStreamsByTheirMessages) {
    const std::vector<CurveResult> rates =
        as_messages({{"via", Quantity::BytesPerSecond, {{8, {80, 160}}}, "", Group::Mpi},
                     {"memcpy by one core", Quantity::BytesPerSecond, {{8, {80}}}, ""},
                     {"via", Quantity::OneWayMicroseconds, {{8, {1}}}, ""}});
    ASSERT_EQ(rates.size(), 1U);
    EXPECT_EQ(rates[0].quantity, Quantity::MessagesPerSecond);
    EXPECT_EQ(rates[0].points.at(0).values, (std::vector<double>{10, 20}));
    const std::string script =
        plot_script(rates, Quantity::MessagesPerSecond, "d.dat", "o.png", "machine");
    EXPECT_NE(script.find("Messages of a stream of MPI inside a host: machine"), std::string::npos)
        << script;
    EXPECT_NE(script.find("(column(2)/1e6) title \"via\""), std::string::npos);
}

TEST(PlotScript, IsEmptyWithoutCurves) {
    EXPECT_EQ(plot_script({}, Quantity::OneWayMicroseconds, "d", "o", "m"), "");
}

}  // namespace
}  // namespace via::bench
