// SPDX-License-Identifier: BSD-3-Clause
#include "control_message.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

TEST(ControlMessage, SurvivesTheWay) {
    const nlohmann::json message{{"kind", "run"}, {"count", 7}};
    const auto same = decode_message(encode_message(message));
    ASSERT_TRUE(same);
    EXPECT_EQ(same.value(), message);
    EXPECT_EQ(number_member(same.value(), "count"), 7u);
}

TEST(ControlMessage, AnErrorComesBackAsOneThatCanBePrinted) {
    const auto told = decode_message(R"({"kind":"error","sentence":"no \u001b[31mluck"})");
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code, base::Code::System);
    EXPECT_EQ(told.error().sentence, "the other side failed: no ?[31mluck");
    EXPECT_EQ(decode_message(R"({"kind":"error","sentence":5})").error().sentence,
              "the other side failed: without a word");
    EXPECT_FALSE(decode_message(encode_message({{"kind", "error"}, {"sentence", "\xff"}})));
}

TEST(ControlMessage, NonsenseIsRefused) {
    for (const char* text : {"", "{", "[]", "5", "null", "\"kind\"", "{}", R"({"kind":5})",
                             R"({"Kind":"run"})", "{\"kind\":\"\xff\"}"})
        EXPECT_FALSE(decode_message(text)) << text;
    EXPECT_FALSE(decode_message(std::string(8000, '[')));
}

TEST(NumberMember, IsZeroForEverythingElse) {
    EXPECT_EQ(number_member({{"n", 5}}, "m"), 0u);
    EXPECT_EQ(number_member({{"n", -5}}, "n"), 0u);
    EXPECT_EQ(number_member({{"n", 5.5}}, "n"), 0u);
    EXPECT_EQ(number_member({{"n", "5"}}, "n"), 0u);
    EXPECT_EQ(number_member(nlohmann::json::array(), "n"), 0u);
}

}  // namespace
}  // namespace via::tool
