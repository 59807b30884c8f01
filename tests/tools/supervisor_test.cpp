// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace via::tool {
namespace {

using base::Result;

SupervisorOptions quiet_options() {
    SupervisorOptions options;
    options.show_progress = false;
    return options;
}

bool no_child_is_left() {
    return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

[[noreturn]] void wait_for_ever() {
    for (;;)
        pause();
}

TEST(RunSides, CollectsWhatAllSidesReport) {
    std::vector<int> numbers;
    SupervisorOptions options = quiet_options();
    options.on_report = [&](const nlohmann::json& report) { numbers.push_back(report["n"]); };
    const pid_t parent = getpid();
    const auto outcome = run_sides({{"one",
                                     {},
                                     [&](SideReporter& reporter) -> Result<void> {
                                         EXPECT_NE(getpid(), parent);
                                         for (int i = 0; i < 1000; ++i)
                                             reporter.report({{"n", i}});
                                         return {};
                                     }},
                                    {"two",
                                     {},
                                     [](SideReporter& reporter) -> Result<void> {
                                         reporter.report({{"n", -1}});
                                         return {};
                                     }}},
                                   options);
    ASSERT_TRUE(outcome) << outcome.error().sentence;
    EXPECT_EQ(numbers.size(), 1001u);
    EXPECT_TRUE(no_child_is_left());
}

TEST(RunSides, LongReportsArriveWhole) {
    std::string text(3'000'000, 'x');
    std::string got;
    SupervisorOptions options = quiet_options();
    options.on_report = [&](const nlohmann::json& report) { got = report["text"]; };
    ASSERT_TRUE(run_sides({{"one",
                            {},
                            [&](SideReporter& reporter) -> Result<void> {
                                reporter.report({{"text", text}});
                                return {};
                            }}},
                          options));
    EXPECT_EQ(got, text);
}

TEST(RunSides, TellsWhoFailedAndWhy) {
    const auto outcome = run_sides({{"good", {}, [](SideReporter&) -> Result<void> { return {}; }},
                                    {"bad",
                                     {},
                                     [](SideReporter&) -> Result<void> {
                                         return {base::Code::System, "no luck today"};
                                     }}},
                                   quiet_options());
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().sentence, "the bad failed: no luck today");
    EXPECT_TRUE(no_child_is_left());
}

TEST(RunSides, AnExceptionIsAFailureToo) {
    const auto outcome = run_sides(
        {{"bad", {}, [](SideReporter&) -> Result<void> { throw std::runtime_error("thrown"); }}},
        quiet_options());
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().sentence, "the bad failed: thrown");
}

TEST(RunSides, AKilledSideEndsTheOtherOne) {
    const auto outcome =
        run_sides({{"victim",
                    {},
                    [](SideReporter&) -> Result<void> {
                        kill(getpid(), SIGKILL);
                        return {};
                    }},
                   {"other", {}, [](SideReporter&) -> Result<void> { wait_for_ever(); }}},
                  quiet_options());
    ASSERT_FALSE(outcome);
    EXPECT_NE(outcome.error().sentence.find("the victim failed: it was ended by signal 9"),
              std::string::npos)
        << outcome.error().sentence;
    EXPECT_TRUE(no_child_is_left());
}

TEST(RunSides, AHangIsEndedAndSaysWhereItWas) {
    SupervisorOptions options = quiet_options();
    options.quiet_limit = 300'000'000;
    const auto outcome = run_sides({{"sleeper",
                                     {},
                                     [](SideReporter& reporter) -> Result<void> {
                                         reporter.stage("counting sheep");
                                         wait_for_ever();
                                     }}},
                                   options);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, base::Code::Timeout);
    EXPECT_NE(outcome.error().sentence.find("counting sheep"), std::string::npos);
    EXPECT_TRUE(no_child_is_left());
}

TEST(RunSides, SignsOfLifeKeepASlowSideGoing) {
    SupervisorOptions options = quiet_options();
    options.quiet_limit = 3'000'000'000;
    const auto outcome = run_sides({{"slow",
                                     {},
                                     [](SideReporter& reporter) -> Result<void> {
                                         const base::Deadline end =
                                             base::Deadline::after(3'500'000'000);
                                         while (!end.expired()) {
                                             reporter.alive();
                                             const timespec nap{0, 20'000'000};
                                             nanosleep(&nap, nullptr);
                                         }
                                         return {};
                                     }}},
                                   options);
    EXPECT_TRUE(outcome) << outcome.error().sentence;
}

TEST(RunSides, ASignalToTheSupervisorEndsAll) {
    const pid_t parent = getpid();
    const auto outcome = run_sides({{"one",
                                     {},
                                     [&](SideReporter&) -> Result<void> {
                                         kill(parent, SIGTERM);
                                         wait_for_ever();
                                     }}},
                                   quiet_options());
    ASSERT_FALSE(outcome);
    EXPECT_NE(outcome.error().sentence.find("signal 15"), std::string::npos);
    EXPECT_TRUE(no_child_is_left());
}

TEST(RunSides, SidesDieWithTheirSupervisor) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t middle = fork();
    ASSERT_GE(middle, 0);
    if (middle == 0) {
        close(ends[0]);
        (void)run_sides({{"orphan",
                          {},
                          [&](SideReporter&) -> Result<void> {
                              if (write(ends[1], "x", 1) != 1) _exit(1);
                              wait_for_ever();
                          }}},
                        quiet_options());
        _exit(0);
    }
    close(ends[1]);
    char byte = 0;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);  // the side runs
    kill(middle, SIGKILL);
    ASSERT_EQ(waitpid(middle, nullptr, 0), middle);
    EXPECT_EQ(read(ends[0], &byte, 1), 0);  // both writers are gone
    close(ends[0]);
}

TEST(RunSides, PinsASide) {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int last = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) last = cpu;
    int found = -1;
    SupervisorOptions options = quiet_options();
    options.on_report = [&](const nlohmann::json& report) { found = report["cpu"]; };
    ASSERT_TRUE(run_sides({{"pinned", last,
                            [](SideReporter& reporter) -> Result<void> {
                                reporter.report({{"cpu", sched_getcpu()}});
                                return {};
                            }}},
                          options));
    EXPECT_EQ(found, last);
}

}  // namespace
}  // namespace via::tool
