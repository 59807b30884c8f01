// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace via::bench {
namespace {

using base::Deadline;

Command shell(const std::string& script) {
    Command command;
    command.arguments = {"sh", "-c", script};
    return command;
}

TEST(Process, GivesItsOutput) {
    auto output = run(shell("echo one; echo two"), Deadline::after_milliseconds(20'000));
    ASSERT_TRUE(output.ok()) << output.error().sentence;
    EXPECT_EQ(output.value(), "one\ntwo\n");
}

TEST(Process, GivesMoreOutputThanAPipeHolds) {
    constexpr std::size_t lines = 5000;
    const std::string line = "a line of some length to fill the pipe again and again";
    auto output = run(shell("i=0; while [ $i -lt " + std::to_string(lines) + " ]; do echo '" +
                            line + "'; i=$((i+1)); done"),
                      Deadline::after_milliseconds(60'000));
    ASSERT_TRUE(output.ok()) << output.error().sentence;
    EXPECT_EQ(output.value().size(), lines * (line.size() + 1));
}

TEST(Process, FailureQuotesTheLastWords) {
    auto output = run(shell("echo on its way; echo went wrong >&2; exit 7"),
                      Deadline::after_milliseconds(20'000));
    ASSERT_FALSE(output.ok());
    EXPECT_NE(output.error().sentence.find("exit code 7"), std::string::npos);
    EXPECT_NE(output.error().sentence.find("went wrong"), std::string::npos);
}

TEST(Process, EndBySignalIsSeen) {
    auto process = Process::start(shell("kill -9 $$"));
    ASSERT_TRUE(process.ok());
    auto outcome = process.value().finish(Deadline::after_milliseconds(20'000));
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.value().exit_code, 128 + 9);
}

/// False also for one that only waits to be reaped.
bool lives(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string line;
    std::getline(file, line);
    const auto name_end = line.rfind(')');
    return name_end != std::string::npos && line.substr(name_end + 2, 1) != "Z";
}

TEST(Process, IsEndedAtTheDeadlineWithItsChildren) {
    auto process = Process::start(shell("sleep 600 & echo grandchild $!; wait"));
    ASSERT_TRUE(process.ok());
    const pid_t leader = process.value().pid();
    auto outcome = process.value().finish(Deadline::after_milliseconds(1000));
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, base::Code::Timeout);
    EXPECT_EQ(::kill(leader, 0), -1);
    const std::string& words = outcome.error().sentence;
    const auto at = words.rfind("grandchild ");
    ASSERT_NE(at, std::string::npos) << words;
    const std::string grandchild = words.substr(at + 11);
    // It was signalled before finish() came back; only its death takes a moment.
    const Deadline deadline = Deadline::after_milliseconds(20'000);
    while (lives(grandchild) && !deadline.expired())
        ::sched_yield();
    EXPECT_FALSE(lives(grandchild)) << grandchild;
}

TEST(Process, IsEndedWithItsObject) {
    pid_t pid = 0;
    {
        auto process = Process::start(shell("exec sleep 600"));
        ASSERT_TRUE(process.ok());
        pid = process.value().pid();
        EXPECT_TRUE(process.value().running());
    }
    EXPECT_EQ(::kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
}

TEST(Process, EnvironmentIsAddedAndRemoved) {
    ::setenv("BENCHTEST_KEPT", "1", 1);
    ::setenv("BENCHTEST_UCX_GONE", "1", 1);
    Command command = shell("echo $BENCHTEST_KEPT,$BENCHTEST_UCX_GONE,$BENCHTEST_NEW");
    command.environment = {"BENCHTEST_NEW=3"};
    command.removed_prefix = "BENCHTEST_UCX_";
    auto output = run(command, Deadline::after_milliseconds(20'000));
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(output.value(), "1,,3\n");
}

TEST(Process, MissingProgramIsNamed) {
    Command command;
    command.arguments = {"no-such-program-anywhere"};
    auto process = Process::start(command);
    ASSERT_FALSE(process.ok());
    EXPECT_EQ(process.error().code, base::Code::NotFound);
    EXPECT_NE(process.error().sentence.find("no-such-program-anywhere"), std::string::npos);
}

}  // namespace
}  // namespace via::bench
