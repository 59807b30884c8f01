// SPDX-License-Identifier: BSD-3-Clause
// With a program in the tool's place that says what it should.
#include "scenes.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace via::bench {
namespace {

class Scenes : public testing::Test {
  protected:
    Scenes() : folder_(testing::TempDir() + "via_scenes_test") {
        std::filesystem::create_directories(folder_);
    }
    ~Scenes() override { std::filesystem::remove_all(folder_); }

    ViaTool tool(const std::string& script) {
        const std::string path = folder_ + "/via";
        std::ofstream(path) << "#!/bin/sh\n" << script;
        EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
        return {path, folder_, {0, 1}, "@nobody"};
    }

    const std::string folder_;
    nlohmann::json record_;
};

TEST_F(Scenes, LinksOverTimeAreWhatTheToolSays) {
    const ViaTool via = tool("echo '{\"seconds\": 4, \"words\": \"'\"$*\"'\"}'\n");
    links_over_time(via, "", true, record_).play();
    EXPECT_EQ(record_["seconds"], 4) << record_;
    EXPECT_EQ(record_["words"], "lab demo --json --seconds 4 --cut 1 --back 2.5");
    links_over_time(via, "", false, record_).play();
    EXPECT_EQ(record_["words"], "lab demo --json");
}

TEST_F(Scenes, WhyThereAreNoLinksIsKept) {
    const Scene scene = links_over_time(tool("exit 1\n"), "this needs root", true, record_);
    EXPECT_EQ(scene.seconds, 0);
    scene.play();
    EXPECT_EQ(record_, (nlohmann::json{{"problem", "this needs root"}}));
    links_over_time(tool("echo broken >&2; exit 1\n"), "", true, record_).play();
    EXPECT_NE(record_["problem"].get<std::string>().find("broken"), std::string::npos) << record_;
    links_over_time(tool("echo '[1, 2'\n"), "", true, record_).play();
    EXPECT_TRUE(record_.contains("problem")) << record_;
}

TEST_F(Scenes, FiguresAreReadFromTheFolder) {
    // The folder is the last word.
    const ViaTool via = tool(
        "for folder; do :; done\nmkdir -p \"$folder\"\n"
        "echo '{\"figures\": [1], \"results\": \"x\"}' > \"$folder/reproduction.json\"\n");
    papers_beside_simulator(via, folder_ + "/figures", record_).play();
    EXPECT_EQ(record_, (nlohmann::json{{"figures", {1}}})) << "and no path";
    papers_beside_simulator(tool("exit 3\n"), folder_ + "/figures", record_).play();
    EXPECT_TRUE(record_.contains("problem")) << record_;
    papers_beside_simulator(tool("exit 0\n"), folder_ + "/nothing", record_).play();
    EXPECT_TRUE(record_.contains("problem")) << record_;
}

TEST_F(Scenes, WithoutTheToolThereIsNone) {
    const ViaTool via("/nowhere/via", "/nowhere", {0, 1}, "@nobody");
    links_over_time(via, "", true, record_).play();
    EXPECT_TRUE(record_.contains("problem")) << record_;
    papers_beside_simulator(via, folder_, record_).play();
    EXPECT_TRUE(record_.contains("problem")) << record_;
}

}  // namespace
}  // namespace via::bench
