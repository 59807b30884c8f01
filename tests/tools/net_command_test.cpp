// SPDX-License-Identifier: BSD-3-Clause
// Measurements between hosts of a lab, and what is seen of their links.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "lab/lab.hpp"
#include "program.hpp"

namespace via::tool::test {
namespace {

using lab::Lab;

class NetCommand : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        // An agent that nobody else uses; each host of a lab has one of that name.
        const std::string socket = "@viaduct/test/net/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    }
    void TearDown() override { static_cast<void>(Lab::take_down(name_).ok()); }

    static bool is_up(const std::string& name) {
        const std::vector<std::string> names = Lab::present();
        return std::find(names.begin(), names.end(), name) != names.end();
    }
    static bool any_lab_of(pid_t pid) {
        const std::string start = "t" + std::to_string(pid) + "_";
        const std::vector<std::string> names = Lab::present();
        return std::any_of(names.begin(), names.end(),
                           [&](const std::string& name) { return name.starts_with(start); });
    }

    const std::string name_ = "net" + std::to_string(getpid());
};

const std::vector<std::string> brief{"--seconds", "0.05", "--repetitions", "2", "--json"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& further) {
    arguments.insert(arguments.end(), further.begin(), further.end());
    return arguments;
}

TEST_F(NetCommand, PingpongInALabOfItsOwn) {
    const Outcome outcome =
        run(with({"pingpong", "--lab", name_, "--links", "1", "--check"}, brief));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json result = outcome.json();
    EXPECT_EQ(result["device"], "net0");
    EXPECT_EQ(result["lab"]["links"], 1);
    EXPECT_GT(result["one_way_us"].get<double>(), 0);
    EXPECT_FALSE(is_up(name_)) << "it is gone again";
}

TEST_F(NetCommand, WindowWithSettingsOfTheSides) {
    const Outcome outcome = run(with({"window", "--lab", name_, "--bytes", "64k", "--mtu", "9000",
                                      "--policy", "dynamic", "--secure", "--check"},
                                     brief));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.json()["lab"]["links"], 2);
    EXPECT_EQ(outcome.json()["lab"]["mtu"], 9000);
    EXPECT_GT(outcome.json()["mb_per_s"].get<double>(), 0);
}

TEST_F(NetCommand, ALabThatIsUpStaysUp) {
    ASSERT_EQ(run({"lab", "up", "--name", name_}).status, 0);
    const Outcome outcome = run(with({"pingpong", "--lab", name_, "--links", "1"}, brief));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.json()["lab"]["name"], name_);
    EXPECT_EQ(run({"lab", "status", "--name", name_}).status, 0);
    const Outcome refused = run({"pingpong", "--lab", name_, "--links", "3"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.errors.find("has 2 links"), std::string::npos) << refused.errors;
    EXPECT_NE(run({"pingpong", "--lab", name_, "--mtu", "9000"}).status, 0);
    EXPECT_NE(run({"pingpong", "--lab", name_, "--server"}).status, 0);
    EXPECT_NE(run({"pingpong", "--links", "1"}).status, 0) << "without a lab";
}

TEST_F(NetCommand, LinksShowWhatAStreamUsesAndWhatHappenedToIt) {
    ASSERT_EQ(run({"lab", "up", "--name", name_}).status, 0);
    for (const char* link : {"0", "1"})
        ASSERT_EQ(run({"lab", "rate", link, "100mbit", "--name", name_}).status, 0);
    Program stream(
        {"window", "--lab", name_, "--bytes", "64k", "--seconds", "60", "--repetitions", "1"});
    const std::vector<std::string> look{"lab", "run",         "--name", name_,   "a",
                                        "--",  VIA_TOOL_PATH, "links",  "--json"};
    const base::Deadline deadline = base::Deadline::after_milliseconds(40'000);
    const auto wait_for = [&](const auto& seen) {
        while (!deadline.expired()) {
            const nlohmann::json answer = run(look).json();
            if (!answer.is_object()) continue;
            for (const nlohmann::json& process : answer["processes"])
                if (process.contains("connections") && seen(process)) return true;
        }
        return false;
    };
    EXPECT_TRUE(wait_for([](const nlohmann::json& process) {
        for (const nlohmann::json& connection : process["connections"]) {
            if (connection["links"].size() != 2) continue;
            bool both = true;
            for (const nlohmann::json& link : connection["links"])
                both = both && link["state"] == "up" && link["share"].get<double>() > 0.2 &&
                       link.value("sent_bytes_per_s", 0.0) > 1e6 &&
                       link["round_trip_us"].get<double>() > 0;
            if (both) return true;
        }
        return false;
    }));
    ASSERT_EQ(run({"lab", "link", "1", "down", "--name", name_}).status, 0);
    EXPECT_TRUE(wait_for([](const nlohmann::json& process) {
        bool fell = false;
        for (const nlohmann::json& change : process["changes"])
            fell =
                fell || (change["link"].get<std::string>().find("10.77.1.") != std::string::npos &&
                         change["from"] == "up" && change["unix_ns"].get<std::int64_t>() > 0);
        return fell;
    }));
    const Outcome text = run({"lab", "run", "--name", name_, "a", "--", VIA_TOOL_PATH, "links"});
    EXPECT_EQ(text.status, 0) << text.errors;
    EXPECT_NE(text.output.find("10.77.0.1"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("up ->"), std::string::npos) << text.output;
    kill(stream.pid(), SIGINT);
    EXPECT_EQ(stream.wait(base::Deadline::after_milliseconds(20'000)).status, 1);
}

TEST_F(NetCommand, InfoSaysWhyAnInterfaceIsUsed) {
    ASSERT_EQ(run({"lab", "up", "--name", name_}).status, 0);
    const Outcome outcome =
        run({"lab", "run", "--name", name_, "a", "--", VIA_TOOL_PATH, "info", "--json"},
            {"VIA_NET_INTERFACES=link0", "VIA_NET_KEY=some words"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json info = outcome.json();
    const nlohmann::json& network = info["network"];
    EXPECT_TRUE(network["cluster_key"].get<bool>());
    EXPECT_GT(network["agent_port"].get<int>(), 0);
    EXPECT_EQ(network["raw"].size(), 2u);
    std::size_t seen = 0;
    for (const nlohmann::json& one : network["interfaces"]) {
        EXPECT_FALSE(!one["used"].get<bool>() && one["reason"].get<std::string>().empty());
        if (one["name"] != "link0" && one["name"] != "link1") continue;
        ++seen;
        EXPECT_EQ(one["used"].get<bool>(), one["name"] == "link0") << one.dump();
    }
    EXPECT_EQ(seen, 2u);
    std::vector<std::string> devices;
    for (const nlohmann::json& device : info["devices"])
        devices.push_back(device["Name"]);
    EXPECT_NE(std::find(devices.begin(), devices.end(), "net0"), devices.end());
    EXPECT_NE(std::find(devices.begin(), devices.end(), "auto"), devices.end());
}

TEST_F(NetCommand, DemoCutsALinkAndBringsItBack) {
    const Outcome outcome = run({"lab", "demo", "--rate", "100mbit", "--seconds", "4", "--cut", "1",
                                 "--back", "2", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json record = outcome.json();
    EXPECT_GT(record["bytes"].get<double>(), 0);
    ASSERT_EQ(record["events"].size(), 2u);
    EXPECT_GE(record["events"][0]["at_s"].get<double>(), 1);
    EXPECT_GE(record["events"][1]["at_s"].get<double>(), 2);
    EXPECT_EQ(record["links"].size(), 2u);
    EXPECT_GT(record["longest_stall"]["ms"].get<double>(), 0);
    EXPECT_NE(run({"lab", "demo", "--cut", "5", "--back", "2"}).status, 0);
}

TEST_F(NetCommand, ADemoThatIsBrokenOffLeavesNothing) {
    Program demo({"lab", "demo", "--seconds", "60", "--back", "50"});
    const base::Deadline deadline = base::Deadline::after_milliseconds(20'000);
    while (!any_lab_of(demo.pid()) && !deadline.expired()) {
    }
    ASSERT_TRUE(any_lab_of(demo.pid()));
    kill(demo.pid(), SIGINT);
    EXPECT_EQ(demo.wait(base::Deadline::after_milliseconds(30'000)).status, 1);
    EXPECT_FALSE(any_lab_of(demo.pid()));
}

}  // namespace
}  // namespace via::tool::test
