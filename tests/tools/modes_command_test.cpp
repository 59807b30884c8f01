// SPDX-License-Identifier: BSD-3-Clause
// `via modes` and `via tune` as people and scripts call them.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "program.hpp"

namespace via::tool::test {
namespace {

/// An agent and a folder that nobody else uses.
class ModesCommands : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        const std::string socket = "@viaduct/test/modes/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    }
    static void TearDownTestSuite() { (void)run({"agent", "stop"}); }

    void SetUp() override {
        char name[] = "/tmp/via-modes-command-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    static std::string contents(const std::filesystem::path& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static Outcome run_longer(const std::vector<std::string>& arguments,
                              const std::vector<std::string>& environment = {}) {
        Program program(arguments, environment);
        return program.wait(base::Deadline::after_milliseconds(300'000));
    }
    std::filesystem::path folder_;
};

TEST_F(ModesCommands, AllSixWaysWithVerifiedData) {
    const Outcome outcome = run_longer(
        {"modes", "--quick", "--bytes", "64,4096", "--json", "--results", folder_.string()});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json result = outcome.json();
    ASSERT_TRUE(result.is_object()) << outcome.output;
    std::map<std::uint64_t, std::set<std::string>> types;
    for (const nlohmann::json& way : result["ways"]) {
        types[way["bytes"].get<std::uint64_t>()].insert(way["type"].get<std::string>());
        for (const char* member : {"one_way_us", "complete_us", "free_us", "mb_per_s"})
            EXPECT_GT(way[member].get<double>(), 0) << way.dump();
        EXPECT_LE(way["spread"]["one_way_us"]["p25"].get<double>(),
                  way["one_way_us"].get<double>());
    }
    const std::set<std::string> six{"User",    "User:ST",    "User:ST,DT",
                                    "Syscall", "Syscall:ST", "Syscall:ST,DT"};
    EXPECT_EQ(types[64], six);
    EXPECT_EQ(types[4096], six);
    EXPECT_EQ(types.size(), 2u);
    EXPECT_GT(result["verified"]["every_byte_messages"].get<std::uint64_t>(), 0u);
    EXPECT_GT(result["verified"]["sampled_messages"].get<std::uint64_t>(), 0u);
    EXPECT_EQ(result["simulated"]["sends"].size(), 12u);
    EXPECT_FALSE(result["crossovers"].empty());
    EXPECT_TRUE(std::filesystem::exists(folder_ / "modes.json"));
}

TEST_F(ModesCommands, WithoutCmaTheOtherWaysAreMeasured) {
    const Outcome outcome =
        run({"modes", "--bytes", "64", "--rounds", "1", "--messages", "5"}, {"VIA_SHM_PATH=kmem"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("CMA is refused here"), std::string::npos) << outcome.output;
}

TEST_F(ModesCommands, NonsenseIsNamed) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
        {{"modes", "--bytes", "0"}, "0 is not a size from 1 to 65536"},
        {{"modes", "--bytes", "64,128k"}, "131072 is not a size"},
        {{"modes", "--bytes", "many"}, "'many' is not a size"},
        {{"modes", "--cpus", "9999"}, "9999"},
        {{"modes", "--quick", "--bytes", "8", "--results", "/proc/nowhere"}, "/proc/nowhere"},
        {{"tune", "--quick", "--file", folder_.string()}, "is no ordinary file"},
        {{"tune", "--quick", "--file", "/proc/nowhere/viaduct.conf"}, "/proc/nowhere"},
        {{"tune", "--cpus", "9999"}, "9999"},
        {{"tune", "--quick", "--dry-run", "--device", "shm77"}, "shm77"},
    };
    for (const auto& [arguments, words] : cases) {
        const Outcome outcome = run_longer(arguments, {"VIA_CONFIG=" + (folder_ / "c").string()});
        EXPECT_EQ(outcome.status, 1) << words;
        EXPECT_NE(outcome.errors.find(words), std::string::npos) << outcome.errors;
    }
    EXPECT_EQ(run({"tune", "--data", "old"}).status, 2);
    EXPECT_EQ(run({"modes", "--rounds", "0"}).status, 2);
}

TEST_F(ModesCommands, TuneDryRunMeasuresAndWritesNothing) {
    const auto file = folder_ / "viaduct.conf";
    const Outcome outcome =
        run_longer({"tune", "--quick", "--dry-run", "--json", "--file", file.string()});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json result = outcome.json();
    ASSERT_TRUE(result.is_object()) << outcome.output;
    std::set<std::string> names;
    for (const nlohmann::json& setting : result["settings"]) {
        names.insert(setting["name"].get<std::string>());
        EXPECT_FALSE(setting["verdict"].get<std::string>().empty());
        for (const char* list : {"sizes", "effect"})
            for (const nlohmann::json& size : setting[list])
                for (const char* way : {"first", "second"}) {
                    EXPECT_GT(size[way]["one_way_us"].get<double>(), 0) << size.dump();
                    EXPECT_GT(size[way]["mb_per_s"].get<double>(), 0) << size.dump();
                }
        // Whoever changes something must show what it did.
        if (setting["accepted"].get<bool>()) {
            EXPECT_FALSE(setting["effect"].empty());
        }
    }
    EXPECT_EQ(names, (std::set<std::string>{"VIA_SHM_INLINE", "VIA_SHM_CHUNK_BYTES",
                                            "VIA_SHM_KMEM_BYTES", "VIA_SHM_SINGLE_COPY_BYTES"}));
    EXPECT_EQ(result["stored"], false);
    EXPECT_EQ(result["file"], file.string());
    EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(ModesCommands, WhatTuneStoresConfigShows) {
    const auto file = folder_ / "deeper" / "viaduct.conf";
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "# mine\nVIA_SPIN_US=77\nVIA_SHM_KMEM_BYTES=3k # tried\n";
    const std::string variable = "VIA_CONFIG=" + file.string();
    const Outcome outcome =
        run_longer({"tune", "--quick", "--rounds", "1", "--force", "--json"}, {variable});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json result = outcome.json();
    ASSERT_EQ(result["stored"], true) << outcome.output;
    EXPECT_EQ(result["to_store"].size(), 4u);
    const std::string text = contents(file);
    EXPECT_EQ(text.rfind("# mine\nVIA_SPIN_US=77\n# via tune: measured ", 0), 0u) << text;
    EXPECT_NE(text.find(" # tried"), std::string::npos) << text;

    const nlohmann::json settings = run({"config", "--json"}, {variable}).json();
    EXPECT_TRUE(settings["warnings"].empty()) << settings["warnings"].dump();
    for (const nlohmann::json& setting : settings["settings"]) {
        const auto name = setting["name"].get<std::string>();
        if (!result["to_store"].contains(name)) continue;
        EXPECT_EQ(setting["origin"], "file") << name;
        EXPECT_EQ(setting["value"], result["to_store"][name]) << name;
    }
}

TEST_F(ModesCommands, AVariableThatHidesWhatIsStoredIsNamed) {
    const auto file = folder_ / "viaduct.conf";
    const Outcome outcome = run_longer(
        {"tune", "--quick", "--rounds", "1", "--force", "--json", "--file", file.string()},
        {"VIA_SHM_KMEM_BYTES=4k"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    ASSERT_EQ(outcome.json()["warnings"].size(), 1u) << outcome.output;
    EXPECT_NE(outcome.json()["warnings"][0].get<std::string>().find("VIA_SHM_KMEM_BYTES is 4k"),
              std::string::npos);
}

}  // namespace
}  // namespace via::tool::test
