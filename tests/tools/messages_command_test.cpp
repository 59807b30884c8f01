// SPDX-License-Identifier: BSD-3-Clause
// `via stat` of a process with messages, which is this one, and `via protocols`.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "mvich/device.hpp"
#include "program.hpp"

namespace via::tool::test {
namespace {

class MessageCommands : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        const std::string socket = "@viaduct/test/messages/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    }
    static void TearDownTestSuite() { (void)run({"agent", "stop"}); }
};

struct Counted final : mvich::Listener {
    void done(const mvich::Completion&) override { ++count; }
    std::size_t count = 0;
};

TEST_F(MessageCommands, StatShowsMessages) {
    auto device = mvich::Device::open();
    ASSERT_TRUE(device) << device.error().sentence;
    Counted heard;
    mvich::Device::EndpointOptions options;
    options.name.host = {127, 0, 0, 1};
    options.book = std::make_shared<mvich::AddressBook>();
    options.listener = &heard;
    auto endpoint = device.value()->create_endpoint(options);
    ASSERT_TRUE(endpoint) << endpoint.error().sentence;
    const mvich::Peer self = options.book->insert(endpoint.value()->name());
    std::vector<std::byte> sent(100'000);
    std::vector<std::byte> received(sent.size());
    std::size_t expected = 0;
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{8}, sent.size()}) {
        const iovec from{sent.data(), bytes};
        mvich::SendOrder send;
        send.to = self;
        send.tag = 1;
        send.pieces = {&from, 1};
        const mvich::Posted posted = endpoint.value()->send(send);
        const iovec to{received.data(), received.size()};
        mvich::ReceiveOrder receive;
        receive.tag = 1;
        receive.pieces = {&to, 1};
        ASSERT_EQ(endpoint.value()->receive(receive), mvich::Posted::UnderWay);
        expected += posted == mvich::Posted::UnderWay ? 2 : 1;
        const base::Deadline deadline = base::Deadline::after_milliseconds(20'000);
        while (heard.count < expected && !deadline.expired())
            device.value()->progress();
        ASSERT_EQ(heard.count, expected);
    }
    const std::string pid = std::to_string(getpid());
    const Outcome outcome = run({"stat", pid, "--once", "--interval", "0.05", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json process = outcome.json()["processes"][0];
    ASSERT_TRUE(process.contains("messages")) << outcome.output;
    const nlohmann::json& messages = process["messages"];
    EXPECT_EQ(messages["sent"], 3);
    EXPECT_EQ(messages["received"], 3);
    EXPECT_EQ(messages["sent_by_protocol_and_size"]["eager"]["1-64"], 2);
    EXPECT_EQ(messages["sent_by_protocol_and_size"]["r3"]["-256k"], 1) << messages.dump(1);
    EXPECT_EQ(messages["devices"], 1);
    EXPECT_EQ(messages["connections"]["in_host"], 2) << "both ends are this one";
    EXPECT_EQ(messages["connections"]["between_hosts"], 0);
    EXPECT_TRUE(messages["least_credits"].is_number());
    EXPECT_TRUE(messages.contains("rates"));
    const Outcome text = run({"stat", pid, "--once"});
    EXPECT_NE(text.output.find("messages: 3 sent"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("r3"), std::string::npos) << text.output;
}

TEST_F(MessageCommands, StatIsSilentAboutMessagesOfAProcessWithout) {
    // The agent's own tools count nothing.
    const Outcome outcome = run({"stat", "--once", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const nlohmann::json answer = outcome.json();
    for (const nlohmann::json& process : answer["processes"])
        if (process["pid"] != getpid()) {
            EXPECT_FALSE(process.contains("messages")) << process.dump();
        }
}

/// The entry of a size, for the peer at `place`.
nlohmann::json size_of(const nlohmann::json& answer, std::size_t place, std::uint64_t bytes) {
    for (const nlohmann::json& entry : answer["peers"][place]["sizes"])
        if (entry["bytes"] == bytes) return entry;
    ADD_FAILURE() << bytes << " is missing";
    return {};
}

TEST_F(MessageCommands, ProtocolsAreThoseOfTheSettings) {
    const Outcome usual = run({"protocols", "--json"});
    ASSERT_EQ(usual.status, 0) << usual.errors;
    nlohmann::json answer = usual.json();
    ASSERT_EQ(answer["peers"].size(), 2u) << usual.output;
    EXPECT_EQ(size_of(answer, 0, 8)["protocol"], "eager");
    EXPECT_EQ(size_of(answer, 0, 8)["path"], "inline frame");
    EXPECT_EQ(size_of(answer, 0, 4097)["protocol"], "r3");
    EXPECT_EQ(size_of(answer, 0, 262'143)["protocol"], "r3");
    EXPECT_EQ(size_of(answer, 0, 262'144)["protocol"], "rget");
    EXPECT_EQ(size_of(answer, 0, 262'144)["copies"], 1);
    EXPECT_EQ(size_of(answer, 1, 262'144)["protocol"], "rput");
    EXPECT_GT(size_of(answer, 1, 262'144)["udp_packets"].get<int>(), 3);
    EXPECT_EQ(answer["peers"][0]["window"], 256);
    EXPECT_EQ(answer["peers"][1]["window"], 36);

    const Outcome other =
        run({"protocols", "--json"},
            {"VIA_MPI_EAGER_BYTES=1000", "VIA_MPI_ONE_COPY_BYTES=20000", "VIA_MPI_CREDITS=7",
             "VIA_SHM_INLINE=0", "VIA_SHM_PATH=ring", "VIA_MPI_DEVICE=shm0"});
    ASSERT_EQ(other.status, 0) << other.errors;
    answer = other.json();
    EXPECT_EQ(size_of(answer, 0, 1000)["protocol"], "eager");
    EXPECT_EQ(size_of(answer, 0, 1001)["protocol"], "r3");
    EXPECT_EQ(size_of(answer, 0, 20'000)["protocol"], "r3") << "no CMA";
    EXPECT_EQ(size_of(answer, 0, 20'000)["copies"], 2);
    EXPECT_EQ(size_of(answer, 0, 8)["path"], "byte ring");
    EXPECT_EQ(answer["peers"][0]["window"], 11);
    EXPECT_EQ(answer["peers"][1]["reached"], false);

    const Outcome text = run({"protocols"});
    EXPECT_EQ(text.status, 0) << text.errors;
    for (const char* part :
         {"inside this host", "on another host", "it fits into a packet", "256k"})
        EXPECT_NE(text.output.find(part), std::string::npos) << part << "\n" << text.output;
}

TEST_F(MessageCommands, ProtocolsNamesASettingThatIsWrong) {
    const Outcome range = run({"protocols"}, {"VIA_MPI_CREDITS=0"});
    EXPECT_EQ(range.status, 1);
    EXPECT_NE(range.errors.find("VIA_MPI_CREDITS"), std::string::npos) << range.errors;
    EXPECT_NE(range.errors.find("1 to 4096"), std::string::npos) << range.errors;
    const Outcome together =
        run({"protocols"}, {"VIA_MPI_EAGER_BYTES=10000", "VIA_MPI_VBUF_BYTES=4k"});
    EXPECT_EQ(together.status, 1);
    EXPECT_NE(together.errors.find("at most 3904"), std::string::npos) << together.errors;
    const Outcome device = run({"protocols"}, {"VIA_MPI_DEVICE=eth0"});
    EXPECT_EQ(device.status, 1);
    EXPECT_NE(device.errors.find("auto, shm0 or net0"), std::string::npos) << device.errors;
}

}  // namespace
}  // namespace via::tool::test
