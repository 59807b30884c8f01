// SPDX-License-Identifier: BSD-3-Clause
// `via lab` as people and scripts call it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/lab.hpp"
#include "program.hpp"

namespace via::tool::test {
namespace {

using lab::Lab;

class LabCommand : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
    }
    void TearDown() override { static_cast<void>(Lab::take_down(name_).ok()); }

    /// `via lab <action> --name <ours> ...`
    [[nodiscard]] Outcome lab(const std::string& action, std::vector<std::string> rest = {}) const {
        return run(arguments(action, std::move(rest)));
    }
    [[nodiscard]] std::vector<std::string> arguments(const std::string& action,
                                                     std::vector<std::string> rest) const {
        std::vector<std::string> all{"lab", action, "--name", name_};
        all.insert(all.end(), rest.begin(), rest.end());
        return all;
    }
    [[nodiscard]] nlohmann::json end(unsigned link, unsigned host) const {
        const Outcome status = lab("status", {"--json"});
        EXPECT_EQ(status.status, 0) << status.errors;
        return status.json()["links"][link]["ends"][host];
    }

    const std::string name_ = "command" + std::to_string(getpid());
};

TEST_F(LabCommand, UpStatusAndDown) {
    const Outcome up = lab("up", {"--links", "1", "--mtu", "9000", "--ipv6"});
    ASSERT_EQ(up.status, 0) << up.errors;
    EXPECT_NE(up.output.find("10.77.0.2"), std::string::npos) << up.output;
    EXPECT_EQ(lab("up", {"--links", "1", "--mtu", "9000", "--ipv6"}).status, 0);
    const Outcome other = lab("up", {"--links", "2"});
    EXPECT_EQ(other.status, 1);
    EXPECT_NE(other.errors.find("already"), std::string::npos) << other.errors;

    const nlohmann::json status = lab("status", {"--json"}).json();
    ASSERT_TRUE(status.is_object());
    EXPECT_EQ(status["lab"], name_);
    EXPECT_EQ(status["hosts"].size(), 2u);
    ASSERT_EQ(status["links"].size(), 1u);
    EXPECT_EQ(status["links"][0]["ends"][1]["address6"], "fd77:0::2");
    EXPECT_EQ(status["links"][0]["ends"][1]["mtu"], 9000);

    const Outcome down = lab("down");
    EXPECT_EQ(down.status, 0) << down.errors;
    EXPECT_EQ(lab("status").status, 1);
    EXPECT_EQ(lab("down").status, 0) << "nothing to do is no failure";
}

TEST_F(LabCommand, HostsHaveNames) {
    ASSERT_EQ(lab("up", {"--links", "1"}).status, 0);
    for (const char* host : {"a", "b"})
        EXPECT_EQ(lab("run", {host, "--", "uname", "-n"}).output, std::string(host) + "\n");
}

TEST_F(LabCommand, LinksAreSpoiledAndMended) {
    ASSERT_EQ(lab("up").status, 0);
    const std::vector<std::vector<std::string>> changes{
        {"rate", "1", "1gbit"},   {"loss", "1", "2%", "--direction", "a-to-b"},
        {"duplicate", "1", "1%"}, {"reorder", "1", "0.5%"},
        {"corrupt", "1", "0.1%"}, {"delay", "1", "200us", "--seed", "7"},
        {"offload", "1", "off"},  {"silent", "1", "on", "--direction", "b-to-a"},
        {"mtu", "1", "2000"},     {"link", "1", "down", "--side", "b"},
    };
    for (std::vector<std::string> change : changes) {
        const std::string action = change.front();
        change.erase(change.begin());
        const Outcome done = lab(action, change);
        EXPECT_EQ(done.status, 0) << action << ": " << done.errors;
    }
    const nlohmann::json a = end(1, 0);
    const nlohmann::json b = end(1, 1);
    EXPECT_EQ(a["rate_bits_per_s"], 1'000'000'000);
    EXPECT_EQ(a["loss_ppm"], 20'000);
    EXPECT_EQ(b["loss_ppm"], 0);
    EXPECT_EQ(a["duplicate_ppm"], 10'000);
    EXPECT_EQ(a["reorder_ppm"], 5'000);
    EXPECT_EQ(b["corrupt_ppm"], 1'000);
    EXPECT_EQ(b["delay_ns"], 200'000);
    EXPECT_EQ(b["seed"], 7);
    EXPECT_FALSE(a["offload"].get<bool>());
    EXPECT_FALSE(a["silent"].get<bool>());
    EXPECT_TRUE(b["silent"].get<bool>());
    EXPECT_EQ(b["mtu"], 2000);
    EXPECT_TRUE(a["up"].get<bool>());
    EXPECT_FALSE(a["carrier"].get<bool>());
    EXPECT_FALSE(b["up"].get<bool>());
    EXPECT_EQ(end(0, 0)["rate_bits_per_s"], 0) << "the other link is as it was";

    // Both orders of words are understood.
    EXPECT_EQ(lab("link", {"up", "1"}).status, 0);
    EXPECT_TRUE(end(1, 1)["up"].get<bool>());
    EXPECT_EQ(lab("delay", {"1", "off"}).status, 0);
    EXPECT_EQ(end(1, 0)["delay_ns"], 0);
}

TEST_F(LabCommand, WhatIsNotUnderstoodIsSaid) {
    ASSERT_EQ(lab("up").status, 0);
    const std::vector<std::pair<std::vector<std::string>, std::string>> wrongs{
        {{"loss", "0", "much"}, "2%"},
        {{"loss", "7", "2%"}, "no link 7"},
        {{"rate", "0", "fast"}, "1gbit"},
        {{"delay", "0", "200"}, "200us"},
        {{"link", "0", "sideways"}, "up nor down"},
        {{"silent", "0", "yes"}, "on nor off"},
        {{"loss", "0", "2%", "--direction", "up"}, "a-to-b"},
        {{"link", "0", "down", "--side", "x"}, "no host 'x'"},
        {{"run", "x", "--", "true"}, "no host 'x'"},
    };
    for (const auto& [words, expected] : wrongs) {
        const Outcome refused = lab(words[0], {words.begin() + 1, words.end()});
        EXPECT_NE(refused.status, 0) << words[0];
        EXPECT_NE(refused.errors.find(expected), std::string::npos)
            << words[0] << ": " << refused.errors;
    }
}

TEST_F(LabCommand, MoreThanTwoHostsHaveDirectionsToAll) {
    ASSERT_EQ(lab("up", {"--hosts", "3", "--links", "1"}).status, 0);
    EXPECT_EQ(lab("loss", {"0", "2%", "--direction", "b-to-all"}).status, 0);
    EXPECT_EQ(end(0, 1)["loss_ppm"], 20'000);
    EXPECT_EQ(end(0, 2)["loss_ppm"], 0);
    const Outcome refused = lab("loss", {"0", "2%", "--direction", "a-to-b"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.errors.find("a-to-all"), std::string::npos) << refused.errors;
}

TEST_F(LabCommand, RunGivesTheCommandsOwnStatusAndOutput) {
    ASSERT_EQ(lab("up").status, 0);
    const Outcome outcome = lab("run", {"a", "--", "sh", "-c", "echo $0 --name; exit 5", "-x"});
    EXPECT_EQ(outcome.status, 5) << outcome.errors;
    EXPECT_EQ(outcome.output, "-x --name\n");
    EXPECT_EQ(lab("run", {"a", "--", "/no/such/program"}).status, 127);
}

TEST_F(LabCommand, SignalsReachTheCommandAndNothingIsLeft) {
    ASSERT_EQ(lab("up").status, 0);
    Program program(arguments(
        "run", {"b", "--", "sh", "-c", "trap 'exit 9' TERM; echo; while :; do sleep 0.01; done"}));
    // It is there once it can be seen in the host.
    const base::Deadline deadline = base::Deadline::after_milliseconds(20'000);
    nlohmann::json processes;
    while (!deadline.expired()) {
        processes = lab("status", {"--json"}).json()["hosts"][1]["processes"];
        if (processes.dump().find("trap") != std::string::npos) break;
    }
    ASSERT_NE(processes.dump().find("trap"), std::string::npos) << processes.dump();
    kill(program.pid(), SIGTERM);
    const int status = program.wait(base::Deadline::after_milliseconds(20'000)).status;
    EXPECT_TRUE(status == 9 || status == 128 + SIGTERM) << status;  // the trap may not be set yet
    EXPECT_EQ(lab("status", {"--json"}).json()["hosts"][1]["processes"].size(), 0u);
}

TEST_F(LabCommand, DownEndsWhatRunsThere) {
    ASSERT_EQ(lab("up").status, 0);
    Program program(arguments("run", {"a", "--", "sleep", "1000"}));
    const base::Deadline deadline = base::Deadline::after_milliseconds(20'000);
    while (lab("status", {"--json"}).json()["hosts"][0]["processes"].empty() &&
           !deadline.expired()) {
    }
    EXPECT_EQ(lab("down").status, 0);
    EXPECT_EQ(program.wait(base::Deadline::after_milliseconds(20'000)).status, 128 + SIGTERM);
}

TEST(LabCommandRights, WithoutRootItSaysSo) {
    const auto ask = [] {
        const Outcome outcome = run({"lab", "up"});
        return outcome.status == 1 && (outcome.errors.find("root") != std::string::npos ||
                                       outcome.errors.find("apt-get") != std::string::npos);
    };
    if (geteuid() != 0) {
        EXPECT_TRUE(ask());
        return;
    }
    constexpr int not_for_others = 77;
    const pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        if (access(VIA_TOOL_PATH, X_OK) != 0) _exit(not_for_others);
        _exit(ask() ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == not_for_others)
        GTEST_SKIP() << "other users can not reach " << VIA_TOOL_PATH;
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace via::tool::test
