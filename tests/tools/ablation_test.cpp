// SPDX-License-Identifier: BSD-3-Clause
#include "ablation.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/settings.hpp"

namespace via::tool {
namespace {

TEST(Ablation, EverySwitchIsASettingThatExists) {
    std::set<std::string_view> names;
    for (const MechanismSwitch& mechanism : mechanism_switches()) {
        EXPECT_TRUE(names.insert(mechanism.name).second) << mechanism.name;
        EXPECT_FALSE(mechanism.without_settings.empty()) << mechanism.name;
        for (const auto* settings : {&mechanism.without_settings, &mechanism.settings})
            for (const std::string& setting : *settings) {
                const std::string name = setting.substr(0, setting.find('='));
                bool declared = false;
                for (const auto& declaration : base::setting_declarations())
                    declared = declared || declaration.name == name;
                EXPECT_TRUE(declared) << name;
            }
    }
    EXPECT_EQ(names.size(), 9U);
}

TEST(Ablation, FiguresAreReadFromWhatTheProgramsPrint) {
    EXPECT_DOUBLE_EQ(
        measured_figure(Yardstick::OneWay, R"({"one_way_us": 0.25, "bytes": 8})").value(), 0.25);
    EXPECT_DOUBLE_EQ(measured_figure(Yardstick::Stream, R"({"mb_per_s": 12.5})").value(), 12.5);
    const std::string fabric =
        "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
        "64      20k     =20k     2.4m        0.02s    100.00       0.64       1.56\n";
    EXPECT_DOUBLE_EQ(measured_figure(Yardstick::FabricOneWay, fabric).value(), 0.64);
}

TEST(Ablation, WhatIsNoFigureIsAnError) {
    for (const char* text : {"", "{", "[]", R"({"one_way_us": "fast"})", R"({"one_way_us": 0})"})
        EXPECT_FALSE(measured_figure(Yardstick::OneWay, text).ok()) << text;
    for (const char* text : {"", "usec/xfer\n", "bytes usec/xfer\n64 none\n"})
        EXPECT_FALSE(measured_figure(Yardstick::FabricOneWay, text).ok()) << text;
}

TEST(Ablation, LessTimeAndMoreBytesAreBothWorthMoreThanOne) {
    const AblationVerdict time = judge(Yardstick::OneWay, {{1, 1, 2}, {2, 3, 4}});
    EXPECT_DOUBLE_EQ(time.worth, 3);
    EXPECT_DOUBLE_EQ(time.lowest, 2);
    EXPECT_DOUBLE_EQ(time.highest, 3);
    EXPECT_TRUE(time.clear);
    const AblationVerdict stream = judge(Yardstick::Stream, {{30, 10}, {10, 20}});
    EXPECT_DOUBLE_EQ(stream.lowest, 0.5);
    EXPECT_DOUBLE_EQ(stream.highest, 3);
    EXPECT_FALSE(stream.clear);
}

}  // namespace
}  // namespace via::tool
