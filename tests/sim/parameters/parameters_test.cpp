// SPDX-License-Identifier: BSD-3-Clause
// Parameter files: whoever writes one wrongly is told where and what.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "sim/firmware/rhinet.hpp"
#include "sim/firmware/send_study.hpp"
#include "sim/firmware/via_firmware.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/nic.hpp"
#include "sim/parameters/catalogue.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {
namespace {

struct Two {
    double length = 0;
    double clock = 0;
};
constexpr std::array two{
    Declaration<Two>{"length", "bytes", 1, 100, &Two::length, "how long"},
    Declaration<Two>{"clock", "MHz", 1, 1000, &Two::clock, "how fast"},
};

base::Result<Two> read(const std::string& text, std::vector<KnownParameter>* known = nullptr) {
    return read_parameters(std::string_view(text), std::string_view("two.nic"),
                           std::span<const Declaration<Two>>(two), known);
}

std::string complaint(const std::string& text) {
    const auto result = read(text);
    return result ? "none" : result.error().sentence;
}

constexpr const char* good =
    "# a comment\n"
    "\n"
    "length = 12 bytes paper \"printed\"\n"
    "  clock =  33.3 MHz   fitted   \"so that it fits; and # is no comment here\"  \n";

TEST(Parameters, AreReadWithTheirOrigins) {
    std::vector<KnownParameter> known;
    const auto result = read(good, &known);
    ASSERT_TRUE(result) << result.error().sentence;
    EXPECT_EQ(result.value().length, 12);
    EXPECT_EQ(result.value().clock, 33.3);
    ASSERT_EQ(known.size(), 2U);
    EXPECT_EQ(known[1].name, "clock");
    EXPECT_EQ(known[1].origin, Origin::Fitted);
    EXPECT_EQ(known[1].reason, "so that it fits; and # is no comment here");
    EXPECT_EQ(known[1].unit, "MHz");
    EXPECT_EQ(known[1].meaning, "how fast");
}

TEST(Parameters, SayWhereTheyAreWrong) {
    const std::string clock = "clock = 1 MHz paper \"x\"\n";
    const struct {
        std::string text, place, word;
    } cases[] = {
        {clock, "two.nic: ", "length is missing"},
        {clock + "length = 0 bytes paper \"x\"", "two.nic:2: ", "length is 0 bytes"},
        {clock + "length = -3 bytes paper \"x\"", "two.nic:2: ", "from 1 to 100"},
        {clock + "length = 101 bytes paper \"x\"", "two.nic:2: ", "from 1 to 100"},
        {clock + "length = nan bytes paper \"x\"", "two.nic:2: ", "`nan`"},
        {clock + "length = inf bytes paper \"x\"", "two.nic:2: ", "`inf`"},
        {clock + "length = 1e999 bytes paper \"x\"", "two.nic:2: ", "no number"},
        {clock + "length = 3x bytes paper \"x\"", "two.nic:2: ", "`3x`"},
        {clock + "length = 3 ns paper \"x\"", "two.nic:2: ", "its unit is bytes"},
        {clock + "length = 3", "two.nic:2: ", "no unit"},
        {clock + "length = 3 bytes", "two.nic:2: ", "origin"},
        {clock + "length = 3 bytes rumour \"x\"", "two.nic:2: ", "`rumour`"},
        {clock + "length = 3 bytes paper", "two.nic:2: ", "no reason"},
        {clock + "length = 3 bytes paper x", "two.nic:2: ", "no reason"},
        {clock + "length = 3 bytes paper \"\"", "two.nic:2: ", "no reason"},
        {clock + "\nlength 3 bytes paper \"x\"", "two.nic:3: ", "expected"},
        {clock + "Length = 3 bytes paper \"x\"", "two.nic:2: ", "no name"},
        {clock + " = 3 bytes paper \"x\"", "two.nic:2: ", "no name"},
        {clock + clock, "two.nic:2: ", "in line 1 already"},
        {clock + "width = 3 bytes paper \"x\"\nlength = 3 bytes paper \"x\"",
         "two.nic:2: ", "no parameter width"},
    };
    for (const auto& each : cases) {
        const std::string text = complaint(each.text);
        EXPECT_EQ(text.rfind(each.place, 0), 0U) << text << "\n" << each.text;
        EXPECT_NE(text.find(each.word), std::string::npos) << text << "\n" << each.text;
    }
}

TEST(Parameters, OfTheCatalogueAreSound) {
    ASSERT_FALSE(catalogue().empty());
    for (const CataloguedFile& file : catalogue()) {
        const auto expect_sound = [&](const auto declarations) {
            const auto read = read_parameters(file.text, file.name, declarations);
            EXPECT_TRUE(read) << read.error().sentence;
        };
        if (file.name.ends_with(".machine"))
            expect_sound(machine_parameters());
        else if (file.name == "rhinet1.nic")
            expect_sound(rhinet_parameters());
        else if (file.name.ends_with(".nic"))
            expect_sound(nic_parameters());
        else if (file.name == "study.firmware")
            expect_sound(study_firmware_parameters());
        else
            expect_sound(via_firmware_parameters());
    }
}

}  // namespace
}  // namespace via::sim
