// SPDX-License-Identifier: BSD-3-Clause
// `via sim reproduce`, `trace` and `ablate` as scripts outside call them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "program.hpp"
#include "xml_check.hpp"

namespace via::tool::test {
namespace {

namespace fs = std::filesystem;

class SimReport : public testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/via-sim-report-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string text_of(const fs::path& file) const {
        std::ostringstream text;
        text << std::ifstream(folder_ / file).rdbuf();
        return text.str();
    }
    [[nodiscard]] Outcome trace(std::vector<std::string> further) const {
        std::vector<std::string> all{"sim", "trace", "--results", folder_.string()};
        all.insert(all.end(), further.begin(), further.end());
        return run(all);
    }

    fs::path folder_;
};

TEST_F(SimReport, TraceLeavesAPictureAndAFileForPerfetto) {
    const Outcome outcome = trace({"--machine", "p3-733", "--nic", "lanai4", "--firmware", "myvia",
                                   "--bytes", "4096", "--messages", "4", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const auto report = outcome.json();
    EXPECT_GT(report["total_us"].get<double>(), 0);
    EXPECT_FALSE(report["stages"].empty());
    EXPECT_EQ(xml_fault(text_of("trace.svg")), "");
    const auto events = nlohmann::json::parse(text_of("trace.json"), nullptr, false);
    ASSERT_TRUE(events.is_object());
    EXPECT_GT(events["traceEvents"].size(), report["stages"].size());
    if (report["png"].get<bool>()) {
        EXPECT_GT(fs::file_size(folder_ / "trace.png"), 1000U);
    }
}

TEST_F(SimReport, TraceOfASendType) {
    const Outcome outcome = trace({"--type", "User", "--bytes", "4096"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("fetch structure"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("User on lanai4 in p2-300"), std::string::npos) << outcome.output;
}

TEST_F(SimReport, NonsenseForTraceIsNamed) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{"--messages", "0"}, "--messages is 0"},
        {{"--bytes", "0"}, "--bytes is 0"},
        {{"--type", "Kernel"}, "User:ST"},
        {{"--type", "User", "--firmware", "bvia"}, "--firmware"},
        {{"--firmware", "mnc", "--nic", "lanai9"}, "mnc is not traced"},
        {{"--machine", "p9-9000"}, "p3-733"},
        {{"--results", "/proc/nowhere"}, "/proc/nowhere"},
    };
    for (const auto& [arguments, word] : cases) {
        const Outcome outcome = word == "/proc/nowhere"
                                    ? run({"sim", "trace", "--results", "/proc/nowhere"})
                                    : trace(arguments);
        EXPECT_EQ(outcome.status, 1) << word;
        EXPECT_NE(outcome.errors.find(word), std::string::npos) << outcome.errors;
    }
}

TEST_F(SimReport, ReproduceLeavesNumbersAndPlots) {
    const Outcome outcome = run({"sim", "reproduce", "--results", folder_.string(), "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const auto report = outcome.json();
    ASSERT_TRUE(report.is_object());
    EXPECT_GT(report["figures"].size(), 50U);
    std::size_t missed = 0;
    for (const auto& figure : report["figures"])
        missed += figure.contains("met") && !figure["met"].get<bool>() ? 1 : 0;
    EXPECT_EQ(report["missed"].get<std::size_t>(), missed);
    const auto file = nlohmann::json::parse(text_of("reproduction.json"), nullptr, false);
    ASSERT_TRUE(file.is_object());
    EXPECT_EQ(file["figures"], report["figures"]);
    ASSERT_FALSE(file["charts"].empty());
    for (const auto& chart : file["charts"].items()) {
        EXPECT_TRUE(fs::exists(folder_ / (chart.key() + ".gnuplot"))) << chart.key();
        if (!report["pictures"].get<bool>()) continue;
        EXPECT_EQ(xml_fault(text_of(chart.key() + ".svg")), "") << chart.key();
        EXPECT_GT(fs::file_size(folder_ / (chart.key() + ".png")), 1000U) << chart.key();
    }
}

TEST_F(SimReport, AblateFailsAsStated) {
    const Outcome outcome = run({"sim", "ablate", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    for (const auto& each : outcome.json()["ablations"])
        EXPECT_TRUE(each["fails_as_stated"].get<bool>()) << each["name"];
}

}  // namespace
}  // namespace via::tool::test
