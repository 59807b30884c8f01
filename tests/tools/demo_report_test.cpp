// SPDX-License-Identifier: BSD-3-Clause
#include "demo_report.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

DemoReport some_report() {
    DemoReport report;
    report.line_us = 0.1;
    for (std::uint64_t bytes = 8; bytes <= 4 << 20; bytes *= 2) {
        const double size = static_cast<double>(bytes);
        report.rows[bytes] = {0.2 + size / 9000, 0.2 + size / 11000, 0.1 + size / 12000,
                              size * 3,          size * 4,           12000};
    }
    return report;
}

TEST(AddResult, PutsEachResultIntoItsPlace) {
    DemoReport report;
    add_result(report, {{"bytes", 64}, {"memory", "heap"}, {"one_way_us", 0.25}});
    add_result(report, {{"bytes", 64}, {"memory", "kmem"}, {"one_way_us", 0.5}});
    add_result(report, {{"bytes", 64}, {"memory", "heap"}, {"mb_per_s", 100.0}});
    add_result(report, {{"bytes", 128}, {"memory", "kmem"}, {"mb_per_s", 200.0}});
    ASSERT_EQ(report.rows.size(), 2u);
    EXPECT_DOUBLE_EQ(report.rows[64].heap_us, 0.25);
    EXPECT_DOUBLE_EQ(report.rows[64].kmem_us, 0.5);
    EXPECT_DOUBLE_EQ(report.rows[64].heap_mb_per_s, 100);
    EXPECT_DOUBLE_EQ(report.rows[64].kmem_mb_per_s, 0);
    EXPECT_DOUBLE_EQ(report.rows[128].kmem_mb_per_s, 200);
}

TEST(DrawTable, HasARowForEachSizeAndADashForWhatIsMissing) {
    DemoReport report;
    report.rows[8].heap_us = 0.25;
    const std::string table = draw_table(report);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
    EXPECT_NE(table.find("0.250"), std::string::npos);
    EXPECT_NE(table.find(" - "), std::string::npos) << table;
}

TEST(DrawPlots, ShowsBothPlots) {
    const std::string text = draw_plots(some_report(), false, 60);
    EXPECT_NE(text.find("one-way time"), std::string::npos);
    EXPECT_NE(text.find("stream, MB/s"), std::string::npos);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(WriteFiles, LeavesNumbersAndAPictureBehind) {
    char name[] = "/tmp/via-demo-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    const std::filesystem::path folder = std::filesystem::path(name) / "deeper" / "results";
    const auto written = write_files(
        some_report(), {{"machine", {{"kernel", "k"}}}, {"version", "v"}}, folder.string());
    std::ifstream file(folder / "demo.json");
    const auto json = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(json.is_object());
    EXPECT_EQ(json["sizes"].size(), 20u);
    if (written) {
        EXPECT_GT(std::filesystem::file_size(folder / "demo.png"), 1000u);
    } else {
        // The only thing that may be missing is the program that draws.
        EXPECT_EQ(written.error().code, base::Code::NotFound) << written.error().sentence;
    }
    std::filesystem::remove_all(name);
}

TEST(WriteFiles, SaysWhereItCouldNotWrite) {
    const auto written = write_files(some_report(), nlohmann::json::object(), "/proc/nowhere");
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().sentence.find("/proc/nowhere"), std::string::npos);
}

}  // namespace
}  // namespace via::tool
