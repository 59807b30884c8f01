// SPDX-License-Identifier: BSD-3-Clause
// A rank that is killed, whatever it and the others were doing: these get an error, the job ends
// soon, and nothing of it is left: no process, no file, no shared memory, no lab.
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
#include <utility>
#include <vector>

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

/// What MPI and Viaduct could leave among everybody's temporary files.
std::set<std::string> temporary_files() {
    std::set<std::string> names;
    for (const char* prefix : {"ompi", "openmpi", "orte", "pmix", "vader", "via"})
        names.merge(names_in("/tmp", prefix));
    return names;
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

struct Case {
    const char* name;
    const char* what;  ///< they do
    unsigned victim = 1;
    std::vector<std::string> options;
};

class KilledRank : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (!GetParam().options.empty())
            if (const auto possible = lab::Lab::possible(); !possible)
                GTEST_SKIP() << possible.error().sentence;
        char name[] = "/tmp/via-killed-rank-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        folder_ = name;
        files::create_directory(folder_ / "ranks");
        files::create_directory(folder_ / "temporary");
    }
    void TearDown() override {
        std::error_code error;
        if (!folder_.empty()) files::remove_all(folder_, error);
    }

    [[nodiscard]] files::path note(const char* name, unsigned number) const {
        return folder_ / "ranks" / (name + ("-" + std::to_string(number)));
    }
    [[nodiscard]] static bool appears(const files::path& path, Deadline deadline) {
        while (!files::exists(path)) {
            if (deadline.expired()) return false;
            std::this_thread::yield();
        }
        return true;
    }
    [[nodiscard]] std::string mark() const { return folder_.filename().string(); }

    /// All ranks do it.
    [[nodiscard]] std::optional<child::Process> start(std::vector<std::string> more_options,
                                                      std::vector<std::string> environment) const {
        const Case& each = GetParam();
        child::Command command;
        command.arguments = {VIA_TOOL_PATH, "run", "-q", "-n", std::to_string(ranks)};
        for (const auto& options : {each.options, more_options})
            command.arguments.insert(command.arguments.end(), options.begin(), options.end());
        command.arguments.insert(command.arguments.end(),
                                 {VIA_KILLED_RANK_PROGRAM, (folder_ / "ranks").string(), each.what,
                                  std::to_string(each.victim)});
        // Open MPI's files lie in TMPDIR, and the mark finds whoever was started by this job.
        command.environment = {"TMPDIR=" + (folder_ / "temporary").string(),
                               "MPI_TEST_MARK=" + mark()};
        command.environment.insert(command.environment.end(), environment.begin(),
                                   environment.end());
        auto process = child::Process::start(command);
        if (!process) {
            ADD_FAILURE() << process.error().sentence;
            return std::nullopt;
        }
        const Deadline deadline = Deadline::after_milliseconds(30'000);
        for (unsigned number = 0; number < ranks; ++number) {
            if (appears(note("rank", number), deadline)) continue;
            const auto outcome = process.value().finish(Deadline::after_milliseconds(1'000));
            ADD_FAILURE() << "rank " << number << " did not begin: "
                          << (outcome ? outcome.value().errors : outcome.error().sentence);
            return std::nullopt;
        }
        return std::move(process).value();
    }
    void kill_victim() const {
        pid_t pid = 0;
        std::ifstream(note("rank", GetParam().victim)) >> pid;
        ASSERT_GT(pid, 0);
        ASSERT_EQ(::kill(pid, SIGKILL), 0);
    }

    files::path folder_;
};

TEST_P(KilledRank, EndsTheJobAndLeavesNothing) {
    const auto shared_before = names_in("/dev/shm");
    const auto files_before = temporary_files();
    const auto labs_before = lab::Lab::present();
    // Between its signals mpirun waits a second, twice on each host and one host after the other:
    // with two hosts up to four of the five seconds. There only everything else is measured.
    std::vector<std::string> patience;
    if (!GetParam().options.empty()) patience = {"--mca", "odls_base_sigkill_timeout=0"};
    auto process = start(std::move(patience), {});
    ASSERT_TRUE(process.has_value());
    ASSERT_NO_FATAL_FAILURE(kill_victim());
    const auto outcome = process->finish(Deadline::after_milliseconds(5'000));
    ASSERT_TRUE(outcome.ok()) << outcome.error().sentence;
    EXPECT_NE(outcome.value().exit_code, 0);
    // mpirun says who was killed, unless it stumbles over its own message, which it then says, or
    // another rank was sooner to end the job because of the same death.
    const std::string& said = outcome.value().errors;
    EXPECT_TRUE(said.find("signal 9") != std::string::npos ||
                said.find("orte/util/show_help.c") != std::string::npos ||
                said.find("An error occurred in MPI_") != std::string::npos)
        << said;
    // Ranks that were told to end may still be on their way out.
    const Deadline deadline = Deadline::after_milliseconds(5'000);
    std::string left = processes_with(mark());
    while (!left.empty() && !deadline.expired()) {
        std::this_thread::yield();
        left = processes_with(mark());
    }
    EXPECT_EQ(left, "") << "processes";
    EXPECT_EQ(added(shared_before, names_in("/dev/shm")), "") << "shared memory";
    EXPECT_EQ(added(files_before, temporary_files()), "") << "files";
    EXPECT_EQ(lab::Lab::present(), labs_before);
    EXPECT_EQ(added({}, names_in(folder_ / "temporary")), "") << "files";
}

/// The launcher, asked to let them, does not end the others, and each finds out by itself.
TEST_P(KilledRank, IsAnErrorOfTheOthers) {
    auto process = start({"--mca", "orte_enable_recovery=1"}, {"MPI_TEST_ERRORS=1"});
    ASSERT_TRUE(process.has_value());
    ASSERT_NO_FATAL_FAILURE(kill_victim());
    const Deadline deadline = Deadline::after_milliseconds(5'000);
    for (unsigned number = 0; number < ranks; ++number)
        if (number != GetParam().victim) {
            EXPECT_TRUE(appears(note("error", number), deadline)) << "rank " << number;
        }
    const auto outcome = process->finish(Deadline::after_milliseconds(10'000));
    EXPECT_TRUE(outcome.ok()) << outcome.error().sentence;
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledRank,
                         ::testing::Values(Case{"mixed_first", "mixed", 0, {}},
                                           Case{"eager", "eager", 1, {}},
                                           Case{"rendezvous", "rendezvous", 1, {}},
                                           Case{"barrier", "barrier", 1, {}},
                                           Case{"lab_eager", "eager", 1, {"--lab"}},
                                           Case{"lab_rendezvous", "rendezvous", 1, {"--lab"}},
                                           Case{"lab_barrier", "barrier", 1, {"--lab"}}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace via::tool
