// SPDX-License-Identifier: BSD-3-Clause
#include "settings_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/settings.hpp"

namespace via::tool {
namespace {

const NewSettings two{{"VIA_SHM_KMEM_BYTES", "8k"}, {"VIA_SHM_CHUNK_BYTES", "16k"}};

TEST(RewriteSettings, ANewFileHasTheCommentAndTheValues) {
    EXPECT_EQ(rewrite_settings("", two, "via tune:", "today on this"),
              "# via tune: today on this\nVIA_SHM_KMEM_BYTES=8k\nVIA_SHM_CHUNK_BYTES=16k\n");
}

TEST(RewriteSettings, EverythingElseStaysAsItIs) {
    const std::string before =
        "# mine\n"
        "\n"
        "  VIA_LOG = debug   # loud\n"
        "VIA_SHM_KMEM_BYTES = 4k  # was better once\n"
        "#VIA_SHM_CHUNK_BYTES=1k\n"
        "nonsense\n"
        "VIA_HOSTS_FILE=/a#b";
    EXPECT_EQ(rewrite_settings(before, two, "via tune:", "now"),
              "# mine\n"
              "\n"
              "  VIA_LOG = debug   # loud\n"
              "# via tune: now\n"
              "VIA_SHM_KMEM_BYTES=8k  # was better once\n"
              "#VIA_SHM_CHUNK_BYTES=1k\n"
              "nonsense\n"
              "VIA_HOSTS_FILE=/a#b\n"
              "VIA_SHM_CHUNK_BYTES=16k\n");
}

TEST(RewriteSettings, DoneTwiceItIsTheSameButForTheComment) {
    const std::string once = rewrite_settings("VIA_LOG=info\n", two, "via tune:", "first");
    const std::string twice = rewrite_settings(once, two, "via tune:", "second");
    EXPECT_EQ(twice.find("first"), std::string::npos) << twice;
    EXPECT_EQ(rewrite_settings(twice, two, "via tune:", "first"), once);
}

TEST(RewriteSettings, OfSeveralLinesOfANameOneIsLeft) {
    const std::string text = rewrite_settings(
        "VIA_SHM_KMEM_BYTES=1k\nVIA_LOG=info\nVIA_SHM_KMEM_BYTES=2k\n", two, "via tune:", "x");
    const auto settings = base::Settings::read({}, text, "file");
    EXPECT_EQ(settings.number("VIA_SHM_KMEM_BYTES"), 8192u);
    EXPECT_EQ(text.find("VIA_SHM_KMEM_BYTES"), text.rfind("VIA_SHM_KMEM_BYTES"));
}

TEST(RewriteSettings, TheSettingsReadWhatWasWritten) {
    const auto settings =
        base::Settings::read({}, rewrite_settings("VIA_LOG=info", two, "via tune:", "x"), "file");
    EXPECT_TRUE(settings.warnings().empty());
    EXPECT_EQ(settings.number("VIA_SHM_KMEM_BYTES"), 8192u);
    EXPECT_EQ(settings.number("VIA_SHM_CHUNK_BYTES"), 16384u);
    EXPECT_EQ(settings.text("VIA_LOG"), "info");
}

class ReplaceFile : public ::testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/via-settings-test-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    static std::string contents(const std::filesystem::path& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] std::size_t files_in_folder() const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(folder_), {}));
    }
    std::filesystem::path folder_;
};

TEST_F(ReplaceFile, MakesFoldersAndTheFile) {
    const auto path = folder_ / "a" / "b" / "viaduct.conf";
    const auto written = replace_file(path.string(), "one\n");
    ASSERT_TRUE(written) << written.error().sentence;
    EXPECT_EQ(contents(path), "one\n");
}

TEST_F(ReplaceFile, IsOneStepThatKeepsTheModeAndLeavesNothingElse) {
    const auto path = folder_ / "viaduct.conf";
    std::ofstream(path) << "old\n";
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    // Whoever has the old file open keeps the old text: it was not written into.
    std::ifstream reader(path);
    ASSERT_TRUE(replace_file(path.string(), "new\n"));
    std::string line;
    std::getline(reader, line);
    EXPECT_EQ(line, "old");
    EXPECT_EQ(contents(path), "new\n");
    struct stat now {};
    ASSERT_EQ(stat(path.c_str(), &now), 0);
    EXPECT_EQ(now.st_mode & 07777, 0600u);
    EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(ReplaceFile, ASymbolicLinkStaysOne) {
    std::ofstream(folder_ / "real.conf") << "old\n";
    std::filesystem::create_symlink("real.conf", folder_ / "viaduct.conf");
    ASSERT_TRUE(replace_file((folder_ / "viaduct.conf").string(), "new\n"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "viaduct.conf"));
    EXPECT_EQ(contents(folder_ / "real.conf"), "new\n");
}

TEST_F(ReplaceFile, APipeOrAFolderIsRefused) {
    // As /dev/null would be, which no test should put at risk.
    const std::string pipe = (folder_ / "pipe").string();
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    for (const std::string& path : {pipe, folder_.string()}) {
        const auto written = replace_file(path, "text\n");
        ASSERT_FALSE(written) << path;
        EXPECT_EQ(written.error().code, base::Code::InvalidArgument);
        EXPECT_NE(written.error().sentence.find(path), std::string::npos);
        EXPECT_FALSE(check_replaceable(path));
    }
    EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(ReplaceFile, SaysWhatCouldNotBeWritten) {
    // Nobody, root included, can make files there.
    const auto written = replace_file("/proc/viaduct/viaduct.conf", "text\n");
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().sentence.find("/proc/viaduct"), std::string::npos)
        << written.error().sentence;
    if (geteuid() == 0) return;  // may write everywhere
    std::filesystem::permissions(
        folder_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    const auto refused = check_replaceable((folder_ / "viaduct.conf").string());
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Code::PermissionDenied);
}

TEST_F(ReplaceFile, WhatIsNotThereIsNotFound) {
    const auto text = base::read_settings_file((folder_ / "none").string());
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, base::Code::NotFound);
}

}  // namespace
}  // namespace via::tool
