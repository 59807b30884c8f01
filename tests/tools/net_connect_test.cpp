// SPDX-License-Identifier: BSD-3-Clause
// Clients and servers that are started by themselves, in hosts of a lab: one that comes too early,
// and hosts that have no addresses but those of their links.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "lab/lab.hpp"
#include "program.hpp"

namespace via::tool::test {
namespace {

using lab::Lab;

class NetConnect : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        const std::string socket = "@viaduct/test/connect/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    }
    void TearDown() override { static_cast<void>(Lab::take_down(name_).ok()); }

    void up(const std::vector<std::string>& further = {}) {
        std::vector<std::string> arguments{"lab", "up", "--name", name_};
        arguments.insert(arguments.end(), further.begin(), further.end());
        const Outcome made = run(arguments);
        ASSERT_EQ(made.status, 0) << made.errors;
    }
    [[nodiscard]] std::vector<std::string> in_host(const char* host,
                                                   const std::vector<std::string>& command) const {
        std::vector<std::string> all{"lab", "run", "--name", name_, host, "--"};
        all.insert(all.end(), command.begin(), command.end());
        return all;
    }
    [[nodiscard]] std::vector<std::string> pingpong(
        const char* host, const std::vector<std::string>& arguments) const {
        std::vector<std::string> command{VIA_TOOL_PATH, "pingpong", "--device", "net0"};
        command.insert(command.end(), arguments.begin(), arguments.end());
        return in_host(host, command);
    }
    [[nodiscard]] std::vector<std::string> client_of(
        const std::string& server, const std::vector<std::string>& further = {}) const {
        std::vector<std::string> arguments{"--connect",     server, "--seconds", "0.05",
                                           "--repetitions", "2",    "--check",   "--json"};
        arguments.insert(arguments.end(), further.begin(), further.end());
        return pingpong("a", arguments);
    }

    const std::string name_ = "con" + std::to_string(getpid());
};

base::Deadline a_while() {
    return base::Deadline::after_milliseconds(50'000);
}

TEST_F(NetConnect, AClientThatComesBeforeItsServerWaitsForIt) {
    up();
    Outcome early = run(client_of("b", {"--retry", "0"}));
    EXPECT_EQ(early.status, 1);
    EXPECT_NE(early.errors.find("no kernel agent runs at"), std::string::npos) << early.errors;
    EXPECT_EQ(early.errors.find("--retry"), std::string::npos) << early.errors;
    early = run(client_of("b", {"--retry", "0.3"}));
    EXPECT_EQ(early.status, 1);
    EXPECT_NE(early.errors.find("tried again for 0.3 s"), std::string::npos) << early.errors;

    Program client(client_of("b", {"--retry", "40"}));
    // While it is refused, so is another one that started after it.
    EXPECT_EQ(run(client_of("b", {"--retry", "0"})).status, 1);
    Program server(pingpong("b", {"--server"}));
    const Outcome measured = client.wait(a_while());
    EXPECT_EQ(measured.status, 0) << measured.errors;
    EXPECT_GT(measured.json().value("one_way_us", 0.0), 0.0) << measured.output;
    EXPECT_EQ(server.wait(a_while()).status, 0);
}

TEST_F(NetConnect, HostsWithLinkLocalAddressesOnly) {
    up({"--ipv6"});
    std::array<std::string, 2> address;  // of b's links
    for (const char* host : {"a", "b"})
        for (const char* device : {"link0", "link1"}) {
            ASSERT_EQ(run(in_host(host, {"ip", "-4", "addr", "flush", "dev", device})).status, 0);
            ASSERT_EQ(
                run(in_host(host, {"ip", "-6", "addr", "flush", "dev", device, "scope", "global"}))
                    .status,
                0);
        }
    for (std::size_t link = 0; link < 2; ++link) {
        const Outcome shown = run(in_host("b", {"ip", "-6", "-o", "addr", "show", "dev",
                                                "link" + std::to_string(link), "scope", "link"}));
        const std::size_t begin = shown.output.find("fe80:");
        ASSERT_NE(begin, std::string::npos) << shown.output << shown.errors;
        address[link] = shown.output.substr(begin, shown.output.find('/', begin) - begin);
    }

    // Without the interface it is not known which link is meant.
    const Outcome vague = run(client_of(address[0], {"--retry", "0"}));
    EXPECT_EQ(vague.status, 1);
    EXPECT_NE(vague.errors.find("fe80::1%eth0"), std::string::npos) << vague.errors;

    // By either link; the connection then uses both.
    for (std::size_t link = 0; link < 2; ++link) {
        Program server(pingpong("b", {"--server", "somewhere"}));
        const std::string name =
            "[" + address[link] + "%link" + std::to_string(link) + "]:somewhere";
        const Outcome measured = run(client_of(name, {"--retry", "30", "--bytes", "256k"}));
        ASSERT_EQ(measured.status, 0) << measured.errors;
        EXPECT_GT(measured.json().value("one_way_us", 0.0), 0.0) << measured.output;
        EXPECT_EQ(server.wait(a_while()).status, 0);
    }

    // Where there is one interface only, nothing has to be said.
    ASSERT_EQ(run({"lab", "link", "1", "down", "--name", name_}).status, 0);
    Program server(pingpong("b", {"--server"}));
    const Outcome measured = run(client_of(address[0], {"--retry", "30"}));
    EXPECT_EQ(measured.status, 0) << measured.errors;
    EXPECT_EQ(server.wait(a_while()).status, 0);
}

/// The kernel tells of a carrier that is gone; nothing has to stay unanswered first.
TEST_F(NetConnect, ALinkThatLosesItsCarrierIsSuspectAtOnce) {
    up();
    // By silence alone it would take a good part of this to notice.
    Program stream({"pingpong", "--lab", name_, "--seconds", "60", "--repetitions", "1"},
                   {"VIA_LOG=info", "VIA_NET_LOST_MS=600000"});
    const base::Deadline deadline = a_while();
    const auto links = [&] {
        const nlohmann::json answer = run(in_host("a", {VIA_TOOL_PATH, "links", "--json"})).json();
        if (answer.is_object())
            for (const nlohmann::json& process : answer["processes"])
                if (process.contains("connections"))
                    for (const nlohmann::json& connection : process["connections"])
                        if (connection["links"].size() == 2 &&
                            connection["links"][0].value("sent_bytes_per_s", 0.0) +
                                    connection["links"][1].value("sent_bytes_per_s", 0.0) >
                                1e5)
                            return process;
        return nlohmann::json();
    };
    nlohmann::json seen;
    const auto idle_link = [&]() -> std::optional<std::size_t> {
        seen = links();
        if (!seen.is_object()) return std::nullopt;
        for (const nlohmann::json& connection : seen["connections"])
            for (std::size_t i = 0; i < connection["links"].size(); ++i)
                if (connection["links"][i]["state"] == "up" &&
                    connection["links"][i].value("sent_bytes_per_s", 1.0) < 1000)
                    return i;
        return std::nullopt;
    };
    std::optional<std::size_t> idle;
    while (!idle && !deadline.expired())
        idle = idle_link();
    ASSERT_TRUE(idle) << seen.dump();
    ASSERT_EQ(
        run({"lab", "link", std::to_string(*idle), "down", "--side", "b", "--name", name_}).status,
        0);
    const std::string network = "10.77." + std::to_string(*idle) + ".";
    bool fell = false;
    while (!fell && !deadline.expired()) {
        seen = links();
        if (!seen.is_object()) continue;
        for (const nlohmann::json& change : seen["changes"])
            fell = fell || (change["link"].get<std::string>().find(network) != std::string::npos &&
                            change["from"] == "up" && change["to"] == "suspect");
    }
    EXPECT_TRUE(fell) << seen.dump();
    kill(stream.pid(), SIGINT);
    const Outcome ended = stream.wait(a_while());
    EXPECT_NE(ended.errors.find("its interface has no carrier"), std::string::npos) << ended.errors;
}

}  // namespace
}  // namespace via::tool::test
