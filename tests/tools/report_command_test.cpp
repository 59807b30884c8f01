// SPDX-License-Identifier: BSD-3-Clause
// `via report` as a program: what it prints and how it ends.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "program.hpp"
#include "report_samples.hpp"
#include "xml_check.hpp"

namespace via::tool::test {
namespace {

class ReportCommand : public testing::Test {
  protected:
    /// A file that goes with the test.
    std::string file(const std::string& name, const std::string& text) {
        const std::string path = testing::TempDir() + "via_report_" + name;
        std::ofstream(path) << text;
        files_.push_back(path);
        return path;
    }
    std::string report(const std::string& name, double ratio) {
        nlohmann::json document = sample_report();
        document["rows"] = nlohmann::json::array(
            {ratio_row("row", spread_json(ratio * 0.99, ratio, ratio * 1.01), "pass")});
        return file(name, document.dump());
    }
    void TearDown() override {
        for (const std::string& path : files_)
            std::remove(path.c_str());
    }

  private:
    std::vector<std::string> files_;
};

TEST_F(ReportCommand, ExitsWithOneWhenSomethingGotSlower) {
    const std::string before = report("before", 0.5);
    const std::string after = report("after", 0.6);
    const Outcome slower = run({"report", "diff", before, after});
    EXPECT_EQ(slower.status, 1) << slower.errors;
    EXPECT_NE(slower.output.find("+20.0 %"), std::string::npos) << slower.output;
    EXPECT_NE(slower.output.find("1 slower"), std::string::npos);
    const Outcome faster = run({"report", "diff", after, before});
    EXPECT_EQ(faster.status, 0);
    EXPECT_NE(faster.output.find("1 faster"), std::string::npos) << faster.output;
    EXPECT_EQ(run({"report", "diff", before, after, "--tolerance", "30"}).status, 0);
    const Outcome json = run({"report", "diff", before, after, "--json"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(json.json()["slower"], 1) << json.output;
    EXPECT_EQ(json.json()["tolerance_percent"], 5);
}

TEST_F(ReportCommand, ExitsWithTwoWhenAFileIsNoReport) {
    const std::string good = report("good", 0.5);
    const std::string bad = file("bad", "{\"schema\": 2, \"rows\": 7}");
    for (const auto& [first, second] : {std::pair{good, bad}, std::pair{bad, good}}) {
        const Outcome outcome = run({"report", "diff", first, second});
        EXPECT_EQ(outcome.status, 2);
        EXPECT_TRUE(outcome.errors.starts_with("via: " + bad + ": ")) << outcome.errors;
        EXPECT_EQ(outcome.output, "");
    }
    const Outcome absent = run({"report", "diff", good, "/nowhere/at/all.json"});
    EXPECT_EQ(absent.status, 2);
    EXPECT_NE(absent.errors.find("/nowhere/at/all.json"), std::string::npos) << absent.errors;
    EXPECT_EQ(run({"report", "show", bad}).status, 2);
    EXPECT_EQ(run({"report", "diff", good}).status, 2) << "one file is not enough";
    EXPECT_EQ(run({"report"}).status, 2);
}

TEST_F(ReportCommand, ShowsThePageAgain) {
    const std::string path = file("sample", sample_report().dump());
    const Outcome printed = run({"report", "show", path});
    ASSERT_EQ(printed.status, 0) << printed.errors;
    EXPECT_EQ(xml_fault(printed.output), "");
    const std::string page = file("page.html", "");
    const Outcome written = run({"report", "show", path, "--output", page});
    ASSERT_EQ(written.status, 0) << written.errors;
    EXPECT_NE(written.output.find("3 of 5 demands pass"), std::string::npos) << written.output;
    std::stringstream content;
    content << std::ifstream(page).rdbuf();
    EXPECT_EQ(content.str(), printed.output);
}

}  // namespace
}  // namespace via::tool::test
