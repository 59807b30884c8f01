// SPDX-License-Identifier: BSD-3-Clause
// What stands between two hosts and a connection: firewalls, paths that carry less than their
// interfaces do, networks that do not meet. Whoever asks is told what it is, and which addresses
// were tried.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "lab/system_programs.hpp"
#include "system/lab_hosts.hpp"

namespace via::test {
namespace {

struct Question {
    Address remote;
    VIP_ULONG timeout_ms = patience_ms;
    std::uint32_t message_bytes = 0;  ///< 0: only the connection
};

struct Answer {
    VIP_RETURN code = VIP_NOT_DONE;     ///< of the request, or of the send after it
    bool lost = false;                  ///< the connection, by the time of the answer
    std::array<char, 1500> sentence{};  ///< the library's
};

constexpr std::uint32_t longest = 1U << 20;
/// Below the ports that the kernel gives: the agent's is one of those, and must stay open here.
constexpr const char* data_ports = "25000-25999";
std::string for_data_ports(const char* verdict) {
    return std::string("udp dport ") + data_ports + ' ' + verdict;
}

/// Waits for a connection and a message over it.
PEER(be_asked) {
    const auto message_bytes = link.get<std::uint32_t>();
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.bytes = 2 * longest, .tag = tag});
    Vi vi(nic, {.tag = tag});
    std::byte* place = arena.take(longest);
    EXPECT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.message(place, longest), arena.handle()));
    Address local(nic, unique_discriminator());
    link.put(local);
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    Answer answer;
    answer.code =
        VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes, &connection);
    if (answer.code == VIP_SUCCESS) answer.code = VipConnectAccept(connection, vi);
    if (answer.code == VIP_SUCCESS && message_bytes != 0) {
        const Completion done = vi.await_recv();
        answer.code = done.code;
        answer.lost = done.code != VIP_SUCCESS && nic.errors().await(VIP_ERROR_CONN_LOST, vi);
        if (done.code == VIP_SUCCESS) {
            EXPECT_EQ(done.length(), message_bytes);
            EXPECT_TRUE(has_pattern(place, message_bytes, 1));
        }
    }
    link.put(answer);
    link.meet();
}

PEER(ask) {
    const auto question = link.get<Question>();
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.bytes = 2 * longest, .tag = tag});
    Vi vi(nic, {.tag = tag});
    Address local(nic, unique_discriminator());
    Address remote = question.remote;
    VIP_VI_ATTRIBUTES attributes{};
    Answer answer;
    answer.code =
        VipConnectRequest(vi, local.get(), remote.get(), question.timeout_ms, &attributes);
    if (answer.code == VIP_SUCCESS && question.message_bytes != 0) {
        std::byte* data = arena.take(question.message_bytes);
        fill_pattern(data, question.message_bytes, 1);
        EXPECT_VIP(VIP_SUCCESS,
                   VipPostSend(vi, arena.message(data, question.message_bytes), arena.handle()));
        answer.code = vi.await_send().code;
        answer.lost = answer.code != VIP_SUCCESS && nic.errors().await(VIP_ERROR_CONN_LOST, vi);
    } else if (answer.code != VIP_SUCCESS) {
        const std::string sentence = VipxErrorText();
        std::copy_n(sentence.begin(), std::min(sentence.size(), answer.sentence.size() - 1),
                    answer.sentence.begin());
    }
    link.put(answer);
    link.meet();
}

class NetObstacle : public LabHosts {
  protected:
    /// Starts who is asked; obstacles are put up after this.
    void begin(std::uint32_t message_bytes = 0, PeerProcess::Environment environment = {}) {
        message_bytes_ = message_bytes;
        environment.emplace("VIA_NET_LOST_MS", "500");
        environment["VIA_NET_PORTS"] = data_ports;
        environment["VIA_LOG"] = "warning";
        environment_ = environment;
        asked_ = b->start("be_asked", environment, words_b.descriptor());
        asked_->link.put(message_bytes);
        remote_ = asked_->link.get<Address>();
    }
    [[nodiscard]] Answer ask(VIP_ULONG timeout_ms = patience_ms,
                             const PeerProcess::Environment& further = {}) {
        for (const auto& [name, value] : further)
            environment_[name] = value;
        asker_ = a->start("ask", environment_, words_a.descriptor());
        asker_->link.put(Question{remote_, timeout_ms, message_bytes_});
        return asker_->link.get<Answer>();
    }
    /// What the other end found.
    [[nodiscard]] Answer asked() { return asked_->link.get<Answer>(); }
    /// Both close and end.
    void close() {
        asker_->link.meet();
        asked_->link.meet();
        EXPECT_EQ(asker_->wait(), 0);
        EXPECT_EQ(asked_->wait(), 0);
    }
    [[nodiscard]] std::string agent_of_b() const { return "10.77.0.2:" + agent_port(); }

    Words words_a;
    Words words_b;

  private:
    PeerProcess::Environment environment_;
    std::uint32_t message_bytes_ = 0;
    std::unique_ptr<PeerProcess> asked_;
    std::unique_ptr<PeerProcess> asker_;
    Address remote_;
};

testing::AssertionResult says(const std::string& text, std::initializer_list<std::string> words) {
    for (const std::string& word : words)
        if (text.find(word) == std::string::npos)
            return testing::AssertionFailure() << "no '" << word << "' in:\n" << text;
    return testing::AssertionSuccess();
}
testing::AssertionResult says(const Answer& answer, std::initializer_list<std::string> words) {
    return says(std::string(answer.sentence.data()), words);
}

TEST_F(NetObstacle, TheAgentsPortIsDropped) {
    make();
    begin();
    b->filter_input("udp dport " + agent_port() + " drop");
    const Answer answer = ask(700);
    EXPECT_VIP(VIP_TIMEOUT, answer.code);
    EXPECT_TRUE(says(answer, {"no answer from " + agent_of_b(), "is UDP port " + agent_port()}));
}

TEST_F(NetObstacle, TheAgentsPortIsRejected) {
    make();
    begin();
    b->filter_input("udp dport " + agent_port() + " reject");
    EXPECT_TRUE(says(ask(), {agent_of_b(), "UDP port unreachable", "firewall"}));
    b->stop_filtering();
    b->filter_input("udp dport " + agent_port() + " reject with icmp type admin-prohibited");
    EXPECT_TRUE(says(ask(), {agent_of_b() + " can not be reached", "firewall", "prohibited"}));
}

TEST_F(NetObstacle, TheDataPortsAreDropped) {
    make();
    begin(1000);
    a->filter_input(for_data_ports("drop"));
    b->filter_input(for_data_ports("drop"));
    const Answer answer = ask();
    const Answer other = asked();
    EXPECT_TRUE(answer.lost) << VipxReturnName(answer.code) << answer.sentence.data();
    EXPECT_TRUE(other.lost) << VipxReturnName(other.code) << other.sentence.data();
    EXPECT_TRUE(
        says(words_a.text(), {"10.77.0.1:25", "10.77.0.2:25", "10.77.1.1:25", "10.77.1.2:25",
                              "500 ms", "no packet has ever come", "firewall", "VIA_NET_PORTS"}));
    EXPECT_TRUE(says(words_b.text(), {"10.77.0.2:25", "to 10.77.0.1:25", "firewall"}));
    close();
}

/// What one end sends comes through, and that end is told of it by the other.
TEST_F(NetObstacle, TheDataPortsOfOneHostAreDropped) {
    make();
    begin(1000);
    b->filter_input(for_data_ports("drop"));
    EXPECT_TRUE(ask().lost);
    EXPECT_TRUE(asked().lost);
    EXPECT_TRUE(says(words_b.text(), {"10.77.0.2:25", "to 10.77.0.1:25", "10.77.1.2:25",
                                      "no packet has ever come", "firewall"}));
    close();
}

TEST_F(NetObstacle, TheDataPortsAreRejected) {
    make();
    begin(1000);
    a->filter_input(for_data_ports("reject"));
    b->filter_input(for_data_ports("reject"));
    EXPECT_TRUE(ask().lost);
    EXPECT_TRUE(asked().lost);
    EXPECT_TRUE(says(words_a.text(), {"10.77.0.1:25", "10.77.0.2:25", "rejects", "refuses"}));
    close();
}

/// One host speaks IPv4 and the other IPv6; their agents speak both.
TEST_F(NetObstacle, NoLinkInCommon) {
    make({.links = 3, .ipv6 = true});
    const auto flush = [](const LabHost& host, const char* family, const char* device) {
        EXPECT_DONE(
            lab::run_program({"ip", family, "addr", "flush", "dev", device}, {host.space(), {}}));
    };
    flush(*a, "-6", "link1");
    flush(*b, "-4", "link2");
    begin(0, {{"VIA_NET_INTERFACES", "link2"}});
    const Answer answer = ask(patience_ms, {{"VIA_NET_INTERFACES", "link1"}});
    EXPECT_NE(answer.code, VIP_SUCCESS);
    EXPECT_TRUE(says(answer, {"no link in common", "here 10.77.1.1/24", "there fd77:2::2/64"}));
}

TEST_F(NetObstacle, NoNetworkInCommon) {
    make({.links = 3});
    begin(0, {{"VIA_NET_INTERFACES", "link2"}});
    EXPECT_DONE(lab::run_ip(a->space(), "addr flush dev link2\n"));
    const Answer answer = ask();
    EXPECT_NE(answer.code, VIP_SUCCESS);
    EXPECT_TRUE(says(
        answer, {"10.77.2.2:" + agent_port() + " can not be reached", "Network is unreachable"}));
}

/// Jumbo frames at both ends, and something between that carries only ordinary ones and does not
/// say so.
TEST_F(NetObstacle, APathThatCarriesLessThanTheInterfaces) {
    for (const char* limit : {"1500", "1300"}) {
        SCOPED_TRACE(limit);
        make({.mtu = 9000});
        for (unsigned number = 0; number < 2; ++number)
            EXPECT_DONE(link(number).offload(false));
        begin(longest, {{"VIA_NET_LOST_MS", "2000"}});
        for (LabHost* host : {a.get(), b.get()})
            host->filter_input(std::string("ip length > ") + limit + " drop");
        EXPECT_VIP(VIP_SUCCESS, ask().code);
        EXPECT_VIP(VIP_SUCCESS, asked().code);
        close();
        TearDown();
    }
}

/// Less than any path may carry: there is no connection, and the reason is named.
TEST_F(NetObstacle, APathThatCarriesTooLittle) {
    make();
    begin(100'000);
    for (LabHost* host : {a.get(), b.get()})
        host->filter_input(for_data_ports("ip length > 1100 drop"));
    EXPECT_TRUE(ask().lost);
    EXPECT_TRUE(asked().lost);
    // Whose patience ends first says it; the other one is told goodbye.
    EXPECT_TRUE(
        says(words_a.text() + words_b.text(), {"10.77.0.1:25", "10.77.0.2:25", "MTU of 1280"}));
    close();
}

}  // namespace
}  // namespace via::test
