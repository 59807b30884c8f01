// SPDX-License-Identifier: BSD-3-Clause
// Whoever made a lab may be killed: everything can still be found and removed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "lab/host_space.hpp"
#include "lab/lab.hpp"
#include "lab/names.hpp"
#include "lab/test_sockets.hpp"

namespace via::lab {
namespace {

/// A child that makes a lab, spoils a link so that there are relays, leaves a stubborn process in a
/// host and is killed. Returns the lab's name; empty: it could not.
std::string make_lab_and_die(const std::string& wanted) {
    int ends[2];
    if (pipe(ends) != 0) return {};
    const pid_t pid = fork();
    if (pid == 0) {
        auto lab = Lab::up({.name = wanted});
        if (!lab || !lab.value().link(0).delay(1'000'000)) _exit(1);
        if (fork() == 0) {
            signal(SIGTERM, SIG_IGN);
            if (!lab.value().enter("b")) _exit(1);
            prctl(PR_SET_NAME, "stubborn");
            const std::string& name = lab.value().options().name;
            static_cast<void>(!write(ends[1], name.data(), name.size()));
            close(ends[0]);
            close(ends[1]);
            for (;;)
                pause();
        }
        for (;;)
            pause();
    }
    close(ends[1]);
    char name[64] = {};
    const ssize_t length = read(ends[0], name, sizeof name - 1);
    close(ends[0]);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return length > 0 ? std::string(name, static_cast<std::size_t>(length)) : std::string();
}

class LabCrash : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
    }
    static void expect_gone(const std::string& name, const std::vector<pid_t>& pids) {
        for (const char* host : {"a", "b"}) {
            const std::string space = space_name(name, host);
            EXPECT_FALSE(std::filesystem::exists(space_path(space)));
            EXPECT_FALSE(std::filesystem::exists(space_etc_folder(space)));
        }
        for (const pid_t pid : pids)
            // One that has ended stays a number until somebody collects it: no network is left.
            EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid) + "/ns/net"));
    }
    static std::vector<pid_t> pids_of(const std::string& name) {
        std::vector<pid_t> pids;
        for (const char* host : {"a", "b"})
            for (const ProcessInSpace& process : processes_in(space_name(name, host)))
                pids.push_back(process.pid);
        return pids;
    }
};

TEST_F(LabCrash, DownRemovesWhatAKilledMakerLeft) {
    const std::string name = make_lab_and_die("crash" + std::to_string(getpid()));
    ASSERT_FALSE(name.empty());
    const std::vector<pid_t> pids = pids_of(name);
    EXPECT_EQ(pids.size(), 3u) << "two relays and the stubborn one";
    // It still works: nothing of it was in the maker.
    auto found = Lab::find(name);
    ASSERT_TRUE(found) << found.error().sentence;
    EXPECT_EQ(found.value().link(0).end(0).value().sends.delay, 1'000'000);
    const auto down = Lab::take_down(name);
    ASSERT_TRUE(down) << down.error().sentence;
    EXPECT_TRUE(down.value());
    expect_gone(name, pids);
}

TEST_F(LabCrash, TheNextTestRemovesWhatAKilledOneLeft) {
    const std::string name = make_lab_and_die({});
    ASSERT_FALSE(name.empty());
    const std::vector<pid_t> pids = pids_of(name);
    auto mine = Lab::up({.name = {}});
    ASSERT_TRUE(mine) << mine.error().sentence;
    expect_gone(name, pids);
}

TEST_F(LabCrash, AHalfMadeLabIsMadeAnew) {
    auto lab = Lab::up({.name = {}});
    ASSERT_TRUE(lab) << lab.error().sentence;
    // As if the maker had been killed in between: the word that all is there is missing.
    const auto spoiled =
        lab.value().run("a", {"ip", "link", "set", "dev", "lo", "alias", ""}, test::patience());
    ASSERT_TRUE(spoiled && spoiled.value().exit_code == 0);
    const auto found = Lab::find(lab.value().options().name);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().sentence.find("half there"), std::string::npos);
    const auto again = Lab::up(lab.value().options());
    ASSERT_TRUE(again) << again.error().sentence;
    EXPECT_TRUE(again.value().status());
}

TEST_F(LabCrash, ADeadRelayIsNoticedAndReplaced) {
    auto lab = Lab::up({.name = {}});
    ASSERT_TRUE(lab) << lab.error().sentence;
    ASSERT_TRUE(lab.value().link(0).delay(1'000'000, "a"));
    const std::string space = lab.value().space("a").value();
    ASSERT_TRUE(end_processes_in(space, relay_process_name(0)));
    // Its devices go with its last descriptor, a moment later.
    const base::Deadline deadline = test::patience();
    while (!lab.value().link(0).end(0).value().relay_missing && !deadline.expired()) {
    }
    EXPECT_TRUE(lab.value().link(0).end(0).value().relay_missing);
    ASSERT_TRUE(lab.value().link(0).delay(1'000'000, "a"));
    EXPECT_FALSE(lab.value().link(0).end(0).value().relay_missing);
    test::HostSocket a(lab.value(), "a", 0);
    test::HostSocket b(lab.value(), "b", 0);
    a.connect_to(b);
    EXPECT_EQ(a.send(1), 0);
    EXPECT_TRUE(b.receive(test::patience()));
}

}  // namespace
}  // namespace via::lab
