// SPDX-License-Identifier: BSD-3-Clause
// A rank that is killed ends the job soon and with an error, and nothing of it is left: no process,
// no file, no shared memory.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "child_program.hpp"
#include "lab/lab.hpp"

namespace via::tool {
namespace {

using base::Deadline;
namespace files = std::filesystem;

constexpr unsigned ranks = 3;

std::set<std::string> names_in(const files::path& folder, const std::string& prefix = {}) {
    std::set<std::string> names;
    std::error_code error;
    for (const auto& entry : files::directory_iterator(folder, error))
        if (entry.path().filename().string().starts_with(prefix))
            names.insert(entry.path().filename().string());
    return names;
}

/// What is in `after` and was not before.
std::string added(const std::set<std::string>& before, const std::set<std::string>& after) {
    std::string text;
    for (const std::string& name : after)
        if (!before.contains(name)) text += " " + name;
    return text;
}

/// Processes whose environment has the mark, but not the kernel agent, which ends when it is idle.
std::string processes_with(const std::string& mark) {
    std::string found;
    for (const std::string& name : names_in("/proc")) {
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        if (std::stoi(name) == ::getpid()) continue;
        std::ifstream file("/proc/" + name + "/environ", std::ios::binary);
        const std::string environment((std::istreambuf_iterator<char>(file)), {});
        if (environment.find(mark) == std::string::npos) continue;
        std::string program;
        std::getline(std::ifstream("/proc/" + name + "/comm") >> std::ws, program);
        if (program != "viad") found += " " + name + " (" + program + ")";
    }
    return found;
}

class KilledRank : public ::testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/via-killed-rank-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
        files::create_directory(folder_ / "ranks");
        files::create_directory(folder_ / "temporary");
    }
    void TearDown() override {
        std::error_code error;
        files::remove_all(folder_, error);
    }

    /// The process of a rank, when all have exchanged messages.
    [[nodiscard]] std::optional<pid_t> rank(unsigned number, Deadline deadline) const {
        const files::path path = folder_ / "ranks" / ("rank-" + std::to_string(number));
        while (!files::exists(path)) {
            if (deadline.expired()) return std::nullopt;
            std::this_thread::yield();
        }
        pid_t pid = 0;
        std::ifstream(path) >> pid;
        return pid > 0 ? std::optional(pid) : std::nullopt;
    }
    [[nodiscard]] child::Command job(std::vector<std::string> options) const {
        child::Command command;
        command.arguments = {VIA_TOOL_PATH, "run", "-q", "-n", std::to_string(ranks)};
        command.arguments.insert(command.arguments.end(), options.begin(), options.end());
        command.arguments.insert(command.arguments.end(),
                                 {VIA_KILLED_RANK_PROGRAM, (folder_ / "ranks").string()});
        // Open MPI's files lie in TMPDIR, and the mark finds whoever was started by this job.
        command.environment = {"TMPDIR=" + (folder_ / "temporary").string(),
                               "MPI_TEST_MARK=" + mark()};
        return command;
    }
    [[nodiscard]] std::string mark() const { return folder_.filename().string(); }

    void kill_one(std::vector<std::string> options, unsigned victim) const {
        const auto shared_before = names_in("/dev/shm");
        auto process = child::Process::start(job(std::move(options)));
        ASSERT_TRUE(process.ok()) << process.error().sentence;
        std::optional<pid_t> pid;
        for (unsigned number = 0; number < ranks; ++number) {
            const auto found = rank(number, Deadline::after_milliseconds(30'000));
            if (!found) {
                const auto outcome = process.value().finish(Deadline::after_milliseconds(1'000));
                FAIL() << "rank " << number << " did not begin: "
                       << (outcome ? outcome.value().errors : outcome.error().sentence);
            }
            if (number == victim) pid = found;
        }
        ASSERT_EQ(::kill(*pid, SIGKILL), 0);
        const auto outcome = process.value().finish(Deadline::after_milliseconds(5'000));
        ASSERT_TRUE(outcome.ok()) << outcome.error().sentence;
        EXPECT_NE(outcome.value().exit_code, 0);
        EXPECT_NE(outcome.value().errors.find("signal 9"), std::string::npos)
            << outcome.value().errors;
        // Ranks that were told to end may still be on their way out.
        const Deadline deadline = Deadline::after_milliseconds(5'000);
        std::string left = processes_with(mark());
        while (!left.empty() && !deadline.expired()) {
            std::this_thread::yield();
            left = processes_with(mark());
        }
        EXPECT_EQ(left, "") << "processes";
        EXPECT_EQ(added(shared_before, names_in("/dev/shm")), "") << "shared memory";
        std::string remains;
        for (const auto& entry : files::recursive_directory_iterator(folder_ / "temporary"))
            if (!entry.is_directory()) remains += " " + entry.path().string();
        EXPECT_EQ(remains, "") << "files";
    }

    files::path folder_;
};

TEST_F(KilledRank, EndsTheJobAndLeavesNothing) {
    kill_one({}, 1);
}

TEST_F(KilledRank, AlsoWhenItIsTheFirst) {
    kill_one({}, 0);
}

TEST_F(KilledRank, AlsoInAnotherHost) {
    if (const auto possible = lab::Lab::possible(); !possible)
        GTEST_SKIP() << possible.error().sentence;
    kill_one({"--lab"}, 1);
}

}  // namespace
}  // namespace via::tool
