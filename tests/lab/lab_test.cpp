// SPDX-License-Identifier: BSD-3-Clause
// Labs as a whole: they come, they are what was asked for, they go.
#include "lab/lab.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "lab/names.hpp"
#include "lab/test_sockets.hpp"

namespace via::lab {
namespace {

using test::HostSocket;

bool is_there(const std::string& name) {
    const std::vector<std::string> all = Lab::present();
    return std::find(all.begin(), all.end(), name) != all.end();
}

/// The exit status of a child that does this.
int in_child(const std::function<int()>& what) {
    const pid_t pid = fork();
    if (pid == 0) _exit(what());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class LabTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
    }
};

TEST(LabRights, WithoutRootThereIsAClearWord) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
    EXPECT_EQ(in_child([] {
                  if (setgid(65534) != 0 || setuid(65534) != 0) return 9;
                  const auto lab = Lab::up({});
                  if (lab) return 1;
                  // On a machine without the programs it names those first.
                  if (lab.error().code == base::Code::NotFound) return 0;
                  if (lab.error().code != base::Code::PermissionDenied) return 2;
                  return lab.error().sentence.find("root") != std::string::npos ? 0 : 3;
              }),
              0);
}

TEST_F(LabTest, AMissingProgramIsNamedWithItsPackage) {
    EXPECT_EQ(in_child([] {
                  if (unshare(CLONE_NEWNS) != 0) return 9;
                  mount("", "/", "none", MS_SLAVE | MS_REC, nullptr);
                  bool hidden = false;
                  for (const char* path : {"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"})
                      hidden |= mount("/dev/null", path, "none", MS_BIND, nullptr) == 0;
                  if (!hidden) return 8;
                  const auto possible = Lab::possible();
                  if (possible) return 1;
                  return possible.error().sentence.find("'nft'") != std::string::npos &&
                                 possible.error().sentence.find("nftables") != std::string::npos
                             ? 0
                             : 2;
              }),
              0);
}

TEST_F(LabTest, ComesAndGoesWithItsObject) {
    std::string name;
    std::string space;
    {
        auto lab = Lab::up({.name = {}});
        ASSERT_TRUE(lab) << lab.error().sentence;
        name = lab.value().options().name;
        space = lab.value().space("a").value();
        EXPECT_TRUE(is_there(name));
        EXPECT_TRUE(std::filesystem::exists(space_path(space)));
        EXPECT_TRUE(std::filesystem::exists(space_etc_folder(space) + "/hosts"));
    }
    EXPECT_FALSE(is_there(name));
    EXPECT_FALSE(std::filesystem::exists(space_path(space)));
    EXPECT_FALSE(std::filesystem::exists(space_etc_folder(space)));
}

TEST_F(LabTest, IsWhatWasAskedFor) {
    auto lab = Lab::up({.name = {}, .hosts = 2, .links = 3, .mtu = 9000, .ipv6 = true});
    ASSERT_TRUE(lab) << lab.error().sentence;
    const auto status = lab.value().status();
    ASSERT_TRUE(status) << status.error().sentence;
    ASSERT_EQ(status.value().hosts.size(), 2u);
    ASSERT_EQ(status.value().links.size(), 3u);
    for (unsigned link = 0; link < 3; ++link) {
        ASSERT_EQ(status.value().links[link].size(), 2u);
        for (const LinkEnd& end : status.value().links[link]) {
            EXPECT_TRUE(end.up && end.carrier);
            EXPECT_EQ(end.mtu, 9000u);
            EXPECT_EQ(end.sends, LinkState());
        }
    }
    EXPECT_EQ(status.value().links[2][1].ipv4, "10.77.2.2");
    EXPECT_EQ(status.value().links[2][1].ipv6, "fd77:2::2");
}

TEST_F(LabTest, MakingItTwiceIsMakingItOnce) {
    auto lab = Lab::up({.name = {}});
    ASSERT_TRUE(lab) << lab.error().sentence;
    ASSERT_TRUE(lab.value().link(0).loss(10'000));
    {
        auto again = Lab::up(lab.value().options());
        ASSERT_TRUE(again) << again.error().sentence;
        EXPECT_EQ(again.value().link(0).end(0).value().sends.loss, 10'000u);
    }
    EXPECT_TRUE(is_there(lab.value().options().name)) << "whoever only found it must not remove it";
    LabOptions other = lab.value().options();
    other.links = 1;
    const auto refused = Lab::up(other);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().sentence.find("2 links"), std::string::npos);
}

TEST_F(LabTest, PacketsGoOverEveryLinkInBothFamilies) {
    auto lab = Lab::up({.name = {}, .links = 2, .ipv6 = true});
    ASSERT_TRUE(lab) << lab.error().sentence;
    for (const bool ipv6 : {false, true})
        for (unsigned link = 0; link < 2; ++link) {
            HostSocket a(lab.value(), "a", link, ipv6);
            HostSocket b(lab.value(), "b", link, ipv6);
            ASSERT_TRUE(a.good() && b.good());
            a.connect_to(b);
            b.connect_to(a);
            EXPECT_EQ(a.send(17), 0);
            const auto there = b.receive(test::patience());
            ASSERT_TRUE(there) << "link " << link;
            EXPECT_EQ(there->number, 17u);
            EXPECT_EQ(b.send(18), 0);
            const auto back = a.receive(test::patience());
            ASSERT_TRUE(back) << "link " << link;
            EXPECT_TRUE(back->intact);
        }
}

TEST_F(LabTest, ThreeHostsShareEachLink) {
    auto lab = Lab::up({.name = {}, .hosts = 3, .links = 2});
    ASSERT_TRUE(lab) << lab.error().sentence;
    const std::vector<std::string> hosts{"a", "b", "c"};
    for (unsigned link = 0; link < 2; ++link)
        for (const std::string& from : hosts)
            for (const std::string& to : hosts) {
                if (from == to) continue;
                HostSocket sender(lab.value(), from, link);
                HostSocket receiver(lab.value(), to, link);
                sender.connect_to(receiver);
                EXPECT_EQ(sender.send(1), 0);
                EXPECT_TRUE(receiver.receive(test::patience())) << from << " to " << to;
            }
    // What a sends is lost, what others send is not.
    ASSERT_TRUE(lab.value().link(0).silent(true, "a"));
    HostSocket a(lab.value(), "a", 0);
    HostSocket b(lab.value(), "b", 0);
    HostSocket c(lab.value(), "c", 0);
    a.connect_to(c);
    b.connect_to(c);
    EXPECT_EQ(a.send(2), 0);
    EXPECT_EQ(b.send(3), 0);
    auto got = c.receive(test::patience());
    ASSERT_TRUE(got);
    EXPECT_EQ(got->number, 3u);
    // The relay puts packets in at the port of the bridge.
    ASSERT_TRUE(lab.value().link(0).silent(false, "a"));
    const auto delayed = lab.value().link(0).delay(1'000'000, "a");
    ASSERT_TRUE(delayed) << delayed.error().sentence;
    EXPECT_EQ(a.send(4), 0);
    got = c.receive(test::patience());
    ASSERT_TRUE(got);
    EXPECT_EQ(got->number, 4u);
}

TEST_F(LabTest, TwoLabsDoNotMeet) {
    auto one = Lab::up({.name = {}});
    auto other = Lab::up({.name = {}});
    ASSERT_TRUE(one && other);
    ASSERT_TRUE(one.value().link(0).down());
    HostSocket a(other.value(), "a", 0);
    HostSocket b(other.value(), "b", 0);
    HostSocket stranger(one.value(), "b", 1);
    a.connect_to(b);
    EXPECT_EQ(a.send(1), 0);
    EXPECT_TRUE(b.receive(test::patience()));
    EXPECT_FALSE(stranger.receive(test::a_moment()));
    const std::string name = one.value().options().name;
    const auto down = Lab::take_down(name);
    ASSERT_TRUE(down && down.value());
    EXPECT_FALSE(is_there(name));
    EXPECT_TRUE(is_there(other.value().options().name));
}

TEST_F(LabTest, ProgramsRunInHostsAndKnowTheNames) {
    auto lab = Lab::up({.name = {}, .links = 1});
    ASSERT_TRUE(lab) << lab.error().sentence;
    const auto outcome = lab.value().run(
        "a", {"sh", "-c", "getent hosts b; ls /sys/class/net; exit 7"}, test::patience());
    ASSERT_TRUE(outcome) << outcome.error().sentence;
    EXPECT_EQ(outcome.value().exit_code, 7);
    EXPECT_NE(outcome.value().output.find("10.77.0.2"), std::string::npos)
        << outcome.value().output;
    EXPECT_NE(outcome.value().output.find("link0"), std::string::npos) << outcome.value().output;
    const auto nobody = lab.value().run("q", {"true"}, test::patience());
    ASSERT_FALSE(nobody);
    EXPECT_NE(nobody.error().sentence.find("no host 'q'"), std::string::npos);
}

TEST_F(LabTest, WhatMakesNoSenseIsRefused) {
    for (const LabOptions& wrong :
         {LabOptions{.name = "a-b"}, LabOptions{.name = {}, .hosts = 1},
          LabOptions{.name = {}, .hosts = 100}, LabOptions{.name = {}, .links = 0},
          LabOptions{.name = {}, .links = 100}, LabOptions{.name = {}, .mtu = 100}}) {
        const auto lab = Lab::up(wrong);
        ASSERT_FALSE(lab);
        EXPECT_EQ(lab.error().code, base::Code::InvalidArgument) << lab.error().sentence;
    }
    const auto none = Lab::find("nowhere");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, base::Code::NotFound);
    const auto down = Lab::take_down("nowhere");
    ASSERT_TRUE(down);
    EXPECT_FALSE(down.value());
}

}  // namespace
}  // namespace via::lab
