// SPDX-License-Identifier: BSD-3-Clause
// `via links policy` changes how a running stream between two hosts of a lab uses its links.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/lab.hpp"
#include "program.hpp"

namespace via::tool::test {
namespace {

using lab::Lab;

/// What `via links` shows of the process with the busiest connection.
struct Sender {
    std::int32_t pid = 0;
    std::uint64_t vi = 0;
    std::string policy;
    std::size_t busy_links = 0;  ///< with a good part of what is sent
};

class LinkPolicyCommand : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        const std::string socket = "@viaduct/test/policy/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
        ASSERT_EQ(run({"lab", "up", "--name", name_}).status, 0);
        // So slow that one link is full and the other is worth using.
        for (const char* link : {"0", "1"})
            ASSERT_EQ(run({"lab", "rate", link, "100mbit", "--name", name_}).status, 0);
    }
    void TearDown() override { static_cast<void>(Lab::take_down(name_).ok()); }

    [[nodiscard]] Outcome in_host(const std::vector<std::string>& arguments) const {
        std::vector<std::string> all{"lab", "run", "--name", name_, "a", "--", VIA_TOOL_PATH};
        all.insert(all.end(), arguments.begin(), arguments.end());
        return run(all);
    }

    [[nodiscard]] Sender look() const {
        Sender best;
        double most = 1e6;  // bytes a second; less is no stream
        const nlohmann::json answer = in_host({"links", "--json"}).json();
        if (!answer.is_object()) return best;
        for (const nlohmann::json& process : answer["processes"]) {
            if (!process.contains("connections")) continue;
            for (const nlohmann::json& connection : process["connections"]) {
                double sent = 0;
                std::size_t busy = 0;
                for (const nlohmann::json& link : connection["links"]) {
                    const double rate = link.value("sent_bytes_per_s", 0.0);
                    sent += rate;
                    // A link that only acknowledges has a thousandth of this.
                    if (rate > 2e6) ++busy;
                }
                if (sent <= most) continue;
                most = sent;
                best = {process["pid"].get<std::int32_t>(), connection["vi"].get<std::uint64_t>(),
                        connection["policy"].get<std::string>(), busy};
            }
        }
        return best;
    }

    [[nodiscard]] bool comes_to(const std::string& policy, std::size_t busy_links, Sender& seen) {
        while (!deadline_.expired()) {
            seen = look();
            if (seen.policy == policy && seen.busy_links == busy_links) return true;
        }
        return false;
    }

    const std::string name_ = "pol" + std::to_string(getpid());
    const base::Deadline deadline_ = base::Deadline::after_milliseconds(50'000);
};

TEST_F(LinkPolicyCommand, AStreamChangesItsLinksWhileItRuns) {
    Program stream({"window", "--lab", name_, "--bytes", "64k", "--seconds", "60", "--repetitions",
                    "1", "--policy", "static"});
    Sender sender;
    ASSERT_TRUE(comes_to("static", 1, sender)) << sender.policy << ", " << sender.busy_links;
    const std::string pid = std::to_string(sender.pid);

    // All connections of one process.
    Outcome told = in_host({"links", "policy", "dynamic", "--pid", pid});
    ASSERT_EQ(told.status, 0) << told.output << told.errors;
    EXPECT_NE(told.output.find("dynamic"), std::string::npos) << told.output;
    EXPECT_TRUE(comes_to("dynamic", 2, sender)) << sender.policy << ", " << sender.busy_links;

    // One connection, by the number that `via links` shows.
    told = in_host({"links", "policy", "static", "--pid", pid, "--vi", std::to_string(sender.vi)});
    ASSERT_EQ(told.status, 0) << told.output << told.errors;
    EXPECT_TRUE(comes_to("static", 1, sender)) << sender.policy << ", " << sender.busy_links;

    // All processes of the user in this host.
    told = in_host({"links", "policy", "adaptive"});
    ASSERT_EQ(told.status, 0) << told.output << told.errors;
    EXPECT_TRUE(comes_to("adaptive", 2, sender)) << sender.policy << ", " << sender.busy_links;

    // What there is not.
    EXPECT_NE(in_host({"links", "policy", "fastest"}).status, 0);
    EXPECT_NE(in_host({"links", "policy", "static", "--vi", "1"}).status, 0) << "of which process?";
    told = in_host({"links", "policy", "static", "--pid", pid, "--vi", "4000"});
    EXPECT_EQ(told.status, 1);
    EXPECT_NE(told.errors.find("no VI 4000"), std::string::npos) << told.errors;
    told = in_host({"links", "policy", "static", "--pid", "1"});
    EXPECT_EQ(told.status, 1);
    EXPECT_NE(told.errors.find("no process 1"), std::string::npos) << told.errors;

    kill(stream.pid(), SIGINT);
    EXPECT_EQ(stream.wait(base::Deadline::after_milliseconds(20'000)).status, 1);
}

}  // namespace
}  // namespace via::tool::test
