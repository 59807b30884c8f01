// SPDX-License-Identifier: BSD-3-Clause
#include "tune/judgement.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tune/tune_report.hpp"

namespace via::tool {
namespace {

/// Rounds in which the second costs so many times the first.
SizeCosts size_with(std::uint64_t bytes, const std::vector<double>& ratios) {
    SizeCosts size;
    size.bytes = bytes;
    double slowness = 1;  // of the machine, which is another in each round
    for (const double ratio : ratios) {
        for (auto member : {&PointCosts::one_way_us, &PointCosts::stream_us}) {
            (size.first.*member).push_back(slowness);
            (size.second.*member).push_back(slowness * ratio);
        }
        slowness *= 1.5;
    }
    return size;
}

SettingStudy change_with(std::vector<SizeCosts> effect, std::vector<bool> changes) {
    SettingStudy study;
    study.name = "VIA_SHM_KMEM_BYTES";
    study.now = "2k";
    study.chosen = "8k";
    study.reason = "it is so";
    study.effect = std::move(effect);
    study.changes = std::move(changes);
    decide(study);
    return study;
}

TEST(Judge, NeedsThreeQuartersOfTheRounds) {
    EXPECT_EQ(judge({0.8, 0.85, 0.9, 0.9, 0.95}).verdict, Verdict::Better);
    EXPECT_EQ(judge({0.5, 0.5, 0.5, 1.1, 1.2}).verdict, Verdict::Same);
    EXPECT_EQ(judge({1.2, 1.1, 1.3, 1.2, 0.9}).verdict, Verdict::Worse);
    EXPECT_EQ(judge({0.995, 0.994, 0.996}).verdict, Verdict::Same);
    EXPECT_EQ(judge({}).verdict, Verdict::Same);
}

TEST(Compare, RoundByRoundSoThatASlowMachineDoesNotCount) {
    const Comparison comparison = compare(size_with(4096, {0.9, 0.9, 0.9, 0.9, 0.9, 0.9}));
    EXPECT_EQ(comparison.verdict, Verdict::Better);
    EXPECT_NEAR(comparison.ratio, 0.9, 1e-9);
    EXPECT_NEAR(comparison.high, 0.9, 1e-9);
}

TEST(Decide, AcceptsWhatWins) {
    const SettingStudy study = change_with(
        {size_with(1024, {1, 1, 1, 1}), size_with(2048, {0.8, 0.8, 0.9, 0.8})}, {false, true});
    EXPECT_TRUE(study.accepted);
    EXPECT_NE(study.verdict.find("8k instead of 2k"), std::string::npos) << study.verdict;
    EXPECT_EQ(values_to_store({study}, false), (NewSettings{{"VIA_SHM_KMEM_BYTES", "8k"}}));
}

TEST(Decide, ASizeThatDoesNotChangeWinsNothing) {
    const SettingStudy study = change_with(
        {size_with(1024, {0.5, 0.5, 0.5}), size_with(2048, {1, 1.01, 0.99})}, {false, true});
    EXPECT_FALSE(study.accepted);
    EXPECT_NE(study.verdict.find("stays 2k"), std::string::npos) << study.verdict;
    EXPECT_TRUE(values_to_store({study}, false).empty());
    EXPECT_EQ(values_to_store({study}, true).size(), 1u);
}

TEST(Decide, OneWinnerAmongLosersIsRefused) {
    EXPECT_FALSE(change_with({size_with(2048, {0.9, 0.9, 0.9}), size_with(4096, {1.3, 1.3, 1.3})},
                             {true, true})
                     .accepted);
    EXPECT_TRUE(change_with({size_with(2048, {0.7, 0.7, 0.7}), size_with(4096, {1.1, 1.1, 1.1})},
                            {true, true})
                    .accepted);
}

TEST(Decide, NothingMeasuredIsNothingWon) {
    EXPECT_FALSE(change_with({}, {}).accepted);
    SettingStudy same;
    same.name = "VIA_SHM_INLINE";
    same.now = same.chosen = "1";
    same.reason = "it is so";
    decide(same);
    EXPECT_FALSE(same.accepted);
    EXPECT_EQ(same.verdict, "VIA_SHM_INLINE stays 1: it is so.");
}

TEST(TuneReport, ShowsBothTablesAndSaysTheSameAsJson) {
    const SettingStudy study = change_with({size_with(2048, {0.8, 0.8, 0.9, 0.8})}, {true});
    const std::string text = draw_studies({study});
    EXPECT_NE(text.find("µs before"), std::string::npos) << text;
    EXPECT_NE(text.find("better"), std::string::npos) << text;
    const nlohmann::json list = to_json(std::vector<SettingStudy>{study});
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0]["effect"][0]["verdict"], "better");
    EXPECT_EQ(list[0]["effect"][0]["changes"], true);
    EXPECT_EQ(list[0]["accepted"], true);
}

}  // namespace
}  // namespace via::tool
