// SPDX-License-Identifier: BSD-3-Clause
// VipConnectWait, VipConnectAccept, VipConnectReject, VipConnectRequest between VIs of one process.
#include <atomic>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

/// A server and a client address, and one VI each.
struct Meeting {
    Nic nic;
    Vi client;
    Vi server;
    Address server_address;
    Address client_address;

    explicit Meeting(const ViOptions& client_options = {}, const ViOptions& server_options = {})
        : client(nic, client_options),
          server(nic, server_options),
          server_address(nic, unique_discriminator()),
          client_address(nic, unique_discriminator()) {}
};

/// A request that a thread makes, and the server's view of it.
class PendingRequest {
  public:
    PendingRequest(Nic& nic, Vi& client, Address& from, Address& to,
                   VIP_ULONG timeout = patience_ms)
        : thread_([this, &client, &from, &to, timeout] {
              code_ = request_until_matched(client, from, to, timeout);
          }) {
        EXPECT_VIP(VIP_SUCCESS, VipConnectWait(nic, to.get(), patience_ms, remote.get(),
                                               &remote_attributes, &connection));
    }
    ~PendingRequest() {
        if (thread_.joinable()) thread_.join();
    }
    PendingRequest(const PendingRequest&) = delete;
    PendingRequest& operator=(const PendingRequest&) = delete;
    [[nodiscard]] VIP_RETURN outcome() {
        thread_.join();
        return code_;
    }
    Address remote;
    VIP_VI_ATTRIBUTES remote_attributes{};
    VIP_CONN_HANDLE connection = nullptr;

  private:
    VIP_RETURN code_ = VIP_NOT_DONE;
    std::thread thread_;
};

TEST(Connect, RequestMeetsWait) {
    Nic client_nic;
    Nic server_nic;
    Vi client(client_nic, {.max_transfer_bytes = 40000, .rdma_write = true, .rdma_read = false});
    Vi server(server_nic, {.max_transfer_bytes = 40000, .rdma_write = false, .rdma_read = false});
    const ConnectOutcome outcome = connect(client, server);
    EXPECT_VIP(VIP_SUCCESS, outcome.request);
    EXPECT_VIP(VIP_SUCCESS, outcome.wait);
    EXPECT_VIP(VIP_SUCCESS, outcome.accept);
    EXPECT_EQ(client.state(), VIP_STATE_CONNECTED);
    EXPECT_EQ(server.state(), VIP_STATE_CONNECTED);
    EXPECT_EQ(outcome.seen_by_client.ReliabilityLevel, reliable_delivery);
    EXPECT_EQ(outcome.seen_by_client.MaxTransferSize, 40000U);
    EXPECT_EQ(outcome.seen_by_client.EnableRdmaWrite, VIP_FALSE);
    EXPECT_EQ(outcome.seen_by_server.ReliabilityLevel, reliable_delivery);
    EXPECT_EQ(outcome.seen_by_server.MaxTransferSize, 40000U);
    EXPECT_EQ(outcome.seen_by_server.EnableRdmaWrite, VIP_TRUE);
    EXPECT_EQ(outcome.seen_by_server.EnableRdmaRead, VIP_FALSE);
}

TEST(Connect, WaitTellsTheRequestersAddress) {
    Meeting meeting;
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    EXPECT_EQ(pending.remote.host(), meeting.client_address.host());
    EXPECT_EQ(pending.remote.discriminator(), meeting.client_address.discriminator());
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, pending.outcome());
}

TEST(Connect, OneNicHandleCanHoldBothEnds) {
    Pair pair({.one_nic_handle = true});
    expect_traffic(pair);
}

TEST(Connect, WorksAtEachReliabilityLevel) {
    for (const VIP_RELIABILITY_LEVEL level : {unreliable, reliable_delivery, reliable_reception}) {
        SCOPED_TRACE(level_name(level));
        const Nic nic;
        if ((nic.attributes().ReliabilityLevelSupport & level) == 0) continue;
        Pair pair(level);
        expect_traffic(pair);
    }
}

TEST(Connect, WaitTimesOut) {
    Nic nic;
    Address local(nic, unique_discriminator());
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_TIMEOUT,
               VipConnectWait(nic, local.get(), 1, remote.get(), &attributes, &connection));
    EXPECT_VIP(VIP_TIMEOUT,
               VipConnectWait(nic, local.get(), 30, remote.get(), &attributes, &connection));
}

TEST(Connect, WaitWithTimeoutZeroPolls) {
    Nic nic;
    Address local(nic, unique_discriminator());
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_TIMEOUT,
               VipConnectWait(nic, local.get(), 0, remote.get(), &attributes, &connection));
}

TEST(Connect, WaitAndRequestTakeBothInfinities) {
    for (const VIP_ULONG infinity : {VIP_INFINITE, infinite_32}) {
        Meeting meeting;
        VIP_RETURN waited = VIP_NOT_DONE;
        VIP_RETURN accepted = VIP_NOT_DONE;
        std::thread acceptor([&] {
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            waited = VipConnectWait(meeting.nic, meeting.server_address.get(), infinity,
                                    remote.get(), &attributes, &connection);
            if (waited == VIP_SUCCESS) accepted = VipConnectAccept(connection, meeting.server);
        });
        EXPECT_VIP(VIP_SUCCESS, request_until_matched(meeting.client, meeting.client_address,
                                                      meeting.server_address, infinity));
        acceptor.join();
        EXPECT_VIP(VIP_SUCCESS, waited);
        EXPECT_VIP(VIP_SUCCESS, accepted);
    }
}

TEST(Connect, WaitRefusesBadArguments) {
    Nic nic;
    Address local(nic, unique_discriminator());
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectWait(nullptr, local.get(), 1, remote.get(), &attributes, &connection));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectWait(nic, nullptr, 1, remote.get(), &attributes, &connection));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectWait(nic, local.get(), 1, nullptr, &attributes, &connection));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectWait(nic, local.get(), 1, remote.get(), nullptr, &connection));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectWait(nic, local.get(), 1, remote.get(), &attributes, nullptr));
    Address long_host(std::string(200, 'h'), "d");
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectWait(nic, long_host.get(), 1, remote.get(), &attributes, &connection));
    Address long_discriminator(nic, std::string(nic.attributes().MaxDiscriminatorLen + 1U, 'd'));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectWait(nic, long_discriminator.get(), 1, remote.get(),
                                                     &attributes, &connection));
}

TEST(Connect, NobodyWaitingIsNoMatch) {
    Meeting meeting;
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_NO_MATCH,
               VipConnectRequest(meeting.client, meeting.client_address.get(),
                                 meeting.server_address.get(), patience_ms, &attributes));
    EXPECT_EQ(meeting.client.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_NO_MATCH,
               VipConnectRequest(meeting.client, meeting.client_address.get(),
                                 meeting.server_address.get(), VIP_INFINITE, &attributes));
}

TEST(Connect, DiscriminatorsMatchByLengthAndBytes) {
    Nic nic;
    Vi server(nic);
    Vi client(nic);
    const std::string name = unique_discriminator();
    Address local(nic, name + "abc");
    Address client_address(nic, "client");
    VIP_RETURN waited = VIP_NOT_DONE;
    VIP_RETURN accepted = VIP_NOT_DONE;
    std::atomic<bool> finished{false};
    std::thread acceptor([&] {
        Address remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        waited =
            VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes, &connection);
        if (waited == VIP_SUCCESS) accepted = VipConnectAccept(connection, server);
        finished = true;
    });
    VIP_VI_ATTRIBUTES attributes{};
    for (const std::string& wrong : {name + "ab", name + "abcd", name + "abd", name + "Abc", name,
                                     std::string(), name + std::string("abc\0", 4)}) {
        Address address(nic, wrong);
        EXPECT_VIP(VIP_NO_MATCH, VipConnectRequest(client, client_address.get(), address.get(),
                                                   patience_ms, &attributes));
    }
    EXPECT_FALSE(finished);
    EXPECT_VIP(VIP_SUCCESS, request_until_matched(client, client_address, local));
    acceptor.join();
    EXPECT_VIP(VIP_SUCCESS, waited);
    EXPECT_VIP(VIP_SUCCESS, accepted);
}

TEST(Connect, TheLongestAndTheEmptyDiscriminatorWork) {
    Nic nic;
    for (const std::string& name :
         {std::string(nic.attributes().MaxDiscriminatorLen, 'x'), std::string()}) {
        Vi server(nic);
        Vi client(nic);
        Address server_address(nic, name);
        Address client_address(nic, name);
        PendingRequest pending(nic, client, client_address, server_address);
        EXPECT_EQ(pending.remote.discriminator(), name);
        EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, server));
        EXPECT_VIP(VIP_SUCCESS, pending.outcome());
    }
}

TEST(Connect, AFailedRequestLeavesReceivesPostedAndCanBeRetried) {
    Pair pair({.connected = false});
    std::byte* target = pair.client.arena.take(64);
    VIP_DESCRIPTOR* receive = pair.client.arena.message(target, 64);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
    Address nowhere(pair.client.nic, unique_discriminator());
    Address local(pair.client.nic, unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    for (int i = 0; i < 3; ++i) {
        EXPECT_VIP(VIP_NO_MATCH, VipConnectRequest(pair.client.vi, local.get(), nowhere.get(),
                                                   patience_ms, &attributes));
        EXPECT_EQ(pair.client.vi.state(), VIP_STATE_IDLE);
        EXPECT_FALSE(pair.client.vi.recv_queue_empty());
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(pair.client.vi, &head));
    }
    pair.connect_again();
    std::byte* source = pair.server.arena.take(64);
    fill_pattern(source, 64, 1);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_send(pair.server.arena.message(source, 64)));
    const Completion received = pair.client.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.descriptor, receive);
    EXPECT_TRUE(has_pattern(target, 64, 1));
}

TEST(Connect, RejectIsToldToTheClientWhichMayTryAgain) {
    Meeting meeting;
    {
        PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                               meeting.server_address);
        EXPECT_VIP(VIP_SUCCESS, VipConnectReject(pending.connection));
        EXPECT_VIP(VIP_REJECT, pending.outcome());
        // The handle is used up.
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectReject(pending.connection));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(pending.connection, meeting.server));
    }
    EXPECT_EQ(meeting.client.state(), VIP_STATE_IDLE);
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, pending.outcome());
}

TEST(Connect, RequestTimesOutWhenTheServerDoesNotAnswer) {
    Meeting meeting;
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address, 50);
    EXPECT_VIP(VIP_TIMEOUT, pending.outcome());
    EXPECT_EQ(meeting.client.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_TIMEOUT, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_EQ(meeting.server.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectReject(pending.connection));
    // Both are free for another try.
    ASSERT_VIP(VIP_SUCCESS, connect(meeting.client, meeting.server).request);
}

TEST(Connect, RejectAfterTheClientGaveUpSucceeds) {
    Meeting meeting;
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address, 20);
    EXPECT_VIP(VIP_TIMEOUT, pending.outcome());
    EXPECT_VIP(VIP_SUCCESS, VipConnectReject(pending.connection));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectReject(pending.connection));
}

TEST(Connect, RequestRefusesTimeoutZero) {
    Meeting meeting;
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectRequest(meeting.client, meeting.client_address.get(),
                                 meeting.server_address.get(), 0, &attributes));
    EXPECT_EQ(meeting.client.state(), VIP_STATE_IDLE);
}

TEST(Connect, RequestRefusesBadArguments) {
    Meeting meeting;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_NET_ADDRESS* local = meeting.client_address.get();
    VIP_NET_ADDRESS* remote = meeting.server_address.get();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectRequest(nullptr, local, remote, 1, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectRequest(meeting.client, nullptr, remote, 1, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectRequest(meeting.client, local, nullptr, 1, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectRequest(meeting.client, local, remote, 1, nullptr));
    Address long_host(std::string(200, 'h'), "d");
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectRequest(meeting.client, local, long_host.get(), 1, &attributes));
    Address long_discriminator(meeting.nic,
                               std::string(meeting.nic.attributes().MaxDiscriminatorLen + 1U, 'd'));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectRequest(meeting.client, local, long_discriminator.get(), 1, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipConnectRequest(meeting.client, long_discriminator.get(), remote, 1, &attributes));
    EXPECT_EQ(meeting.client.state(), VIP_STATE_IDLE);
}

TEST(Connect, AnAddressOfNoKnownHostIsNotReachable) {
    Meeting meeting;
    std::string host = host_of(meeting.nic);
    for (char& byte : host)
        byte = static_cast<char>(~byte);
    Address nowhere(host, "x");
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_NOT_REACHABLE, VipConnectRequest(meeting.client, meeting.client_address.get(),
                                                    nowhere.get(), patience_ms, &attributes));
    EXPECT_EQ(meeting.client.state(), VIP_STATE_IDLE);
}

TEST(Connect, AcceptRefusesAnotherReliabilityLevelAndCanBeRetried) {
    Meeting meeting({.level = reliable_delivery}, {.level = unreliable});
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    EXPECT_VIP(VIP_INVALID_RELIABILITY_LEVEL, VipConnectAccept(pending.connection, meeting.server));
    // The client has not been told.
    EXPECT_EQ(meeting.client.state(), VIP_STATE_CONNECT_PENDING);
    EXPECT_EQ(meeting.server.state(), VIP_STATE_IDLE);
    VIP_VI_ATTRIBUTES attributes = attributes_for(meeting.nic, {.level = reliable_delivery});
    ASSERT_VIP(VIP_SUCCESS, VipSetViAttributes(meeting.server, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, pending.outcome());
}

TEST(Connect, AcceptRefusesAnotherTransferSizeAndTheServerMayReject) {
    Meeting meeting({.max_transfer_bytes = 65536}, {.max_transfer_bytes = 32768});
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    EXPECT_VIP(VIP_INVALID_MTU, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_EQ(meeting.client.state(), VIP_STATE_CONNECT_PENDING);
    EXPECT_VIP(VIP_SUCCESS, VipConnectReject(pending.connection));
    EXPECT_VIP(VIP_REJECT, pending.outcome());
}

TEST(Connect, AcceptRefusesBadHandles) {
    Meeting meeting;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(nullptr, meeting.server));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(&something, meeting.server));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectReject(nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectReject(&something));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectReject(static_cast<VIP_VI_HANDLE>(meeting.server)));
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(pending.connection, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(pending.connection, &something));
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, pending.outcome());
    Vi another(meeting.nic);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(pending.connection, another));
}

TEST(Connect, AcceptRefusesAViOfAnotherNicHandle) {
    Meeting meeting;
    Nic other_nic;
    Vi other(other_nic);
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipConnectAccept(pending.connection, other));
    EXPECT_EQ(other.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, pending.outcome());
}

TEST(Connect, ThereIsNoBacklog) {
    Meeting meeting;
    Vi second(meeting.nic);
    Address second_address(meeting.nic, unique_discriminator());
    PendingRequest pending(meeting.nic, meeting.client, meeting.client_address,
                           meeting.server_address);
    // The server has one request in hand and waits for no other.
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_NO_MATCH,
               VipConnectRequest(second, second_address.get(), meeting.server_address.get(),
                                 patience_ms, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(pending.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, pending.outcome());
}

TEST(Connect, SeveralRequestsCanBeInHandAtOnce) {
    Meeting meeting;
    Vi second_client(meeting.nic);
    Vi second_server(meeting.nic);
    Address second_address(meeting.nic, unique_discriminator());
    PendingRequest first(meeting.nic, meeting.client, meeting.client_address,
                         meeting.server_address);
    PendingRequest second(meeting.nic, second_client, second_address, meeting.server_address);
    EXPECT_NE(first.connection, second.connection);
    EXPECT_EQ(second.remote.discriminator(), second_address.discriminator());
    // In the other order.
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(second.connection, second_server));
    EXPECT_VIP(VIP_SUCCESS, second.outcome());
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(first.connection, meeting.server));
    EXPECT_VIP(VIP_SUCCESS, first.outcome());
}

TEST(Connect, SeveralWaitersOnOneAddressGetOneRequestEach) {
    constexpr std::size_t count = 4;
    Nic nic;
    Address server_address(nic, unique_discriminator());
    std::vector<std::unique_ptr<Vi>> servers;
    std::vector<std::unique_ptr<Vi>> clients;
    for (std::size_t i = 0; i < count; ++i) {
        servers.push_back(std::make_unique<Vi>(nic));
        clients.push_back(std::make_unique<Vi>(nic));
    }
    std::vector<VIP_RETURN> accepted(count, VIP_NOT_DONE);
    std::vector<std::string> seen(count);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            accepted[i] = VipConnectWait(nic, server_address.get(), patience_ms, remote.get(),
                                         &attributes, &connection);
            if (accepted[i] != VIP_SUCCESS) return;
            seen[i] = remote.discriminator();
            accepted[i] = VipConnectAccept(connection, *servers[i]);
        });
    }
    std::set<std::string> sent;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string name = unique_discriminator();
        sent.insert(name);
        Address client_address(nic, name);
        EXPECT_VIP(VIP_SUCCESS, request_until_matched(*clients[i], client_address, server_address));
    }
    for (auto& thread : threads)
        thread.join();
    for (const VIP_RETURN code : accepted)
        EXPECT_VIP(VIP_SUCCESS, code);
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), sent);
}

}  // namespace
}  // namespace via::test
