// SPDX-License-Identifier: BSD-3-Clause
// VipConnectWait, VipConnectAccept, VipConnectReject, VipConnectRequest, VipDisconnect.
#include <atomic>
#include <set>

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

PEER(up_but_not_waiting) {
    Nic nic;
    const Vi vi(nic);
    Address local(nic, unique_discriminator());
    link.put(local);
    link.meet();
}

TEST(Connect, AServerThatIsUpButNotWaitingIsNoMatch) {
    PeerProcess peer("up_but_not_waiting");
    auto remote = peer.link.get<Address>();
    Nic nic;
    Vi vi(nic);
    Address local(nic, unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_NO_MATCH,
               VipConnectRequest(vi, local.get(), remote.get(), patience_ms, &attributes));
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
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

PEER(connect_and_echo) {
    ClientEnd client;
    client.request(link);
    std::byte* data = client.end.arena.take(1000);
    ASSERT_VIP(VIP_SUCCESS, client.end.post_recv(client.end.arena.message(data, 1000)));
    link.meet();
    const Completion received = client.end.vi.await_recv();
    ASSERT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.length(), 777U);
    EXPECT_TRUE(has_pattern(data, 777, 5));
    ASSERT_VIP(VIP_SUCCESS,
               client.end.post_send(client.end.arena.message(data, received.length())));
    EXPECT_VIP(VIP_SUCCESS, client.end.vi.await_send().code);
    link.meet();
}

TEST(Connect, AnotherProcessConnectsAndEchoes) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    PeerProcess peer("connect_and_echo");
    server.accept(peer.link);
    peer.link.meet();
    std::byte* data = server.end.arena.take(1000);
    fill_pattern(data, 777, 5);
    std::byte* back = server.end.arena.take(1000);
    ASSERT_VIP(VIP_SUCCESS, server.end.post_recv(server.end.arena.message(back, 1000)));
    ASSERT_VIP(VIP_SUCCESS, server.end.post_send(server.end.arena.message(data, 777)));
    EXPECT_VIP(VIP_SUCCESS, server.end.vi.await_send().code);
    const Completion received = server.end.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.length(), 777U);
    EXPECT_TRUE(has_pattern(back, 777, 5));
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

PEER(request_and_die) {
    Nic nic;
    Vi vi(nic);
    auto remote = link.get<Address>();
    Address local(nic, unique_discriminator());
    static_cast<void>(request_until_matched(vi, local, remote));
}

TEST(Connect, AClientThatDiesBeforeTheAcceptTimesOut) {
    NEEDS_TWO_PROCESSES();
    Nic nic;
    Vi vi(nic);
    PeerProcess peer("request_and_die");
    Address local(nic, unique_discriminator());
    peer.link.put(local);
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes,
                                           &connection));
    peer.kill();
    EXPECT_EQ(peer.wait(), -9);
    // Accepting may win the race with the agent's noticing the death; then the VI breaks at once.
    const VIP_RETURN accepted = VipConnectAccept(connection, vi);
    if (accepted == VIP_SUCCESS) {
        EXPECT_TRUE(vi.becomes(VIP_STATE_ERROR));
    } else {
        EXPECT_VIP(VIP_TIMEOUT, accepted);
        EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
    }
}

PEER(wait_and_die) {
    Nic nic;
    Address local(nic, unique_discriminator());
    link.put(local);
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes,
                                           &connection));
    std::_Exit(0);
}

TEST(Connect, AServerThatDiesBeforeTheAcceptEndsTheRequest) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("wait_and_die");
    auto remote = peer.link.get<Address>();
    Nic nic;
    Vi vi(nic);
    Address local(nic, unique_discriminator());
    VIP_RETURN code = VIP_SUCCESS;
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_TRUE(eventually([&] {
        code = VipConnectRequest(vi, local.get(), remote.get(), 2000, &attributes);
        return code != VIP_NO_MATCH || peer.has_ended();
    }));
    // The server's end is a refusal, or nobody's waiting, or the time runs out.
    EXPECT_TRUE(code == VIP_TIMEOUT || code == VIP_REJECT || code == VIP_NO_MATCH)
        << VipxReturnName(code);
    EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
    EXPECT_EQ(peer.wait(), 0);
}

// ---- VipDisconnect --------------------------------------------------------------------------

TEST(Disconnect, FlushesEverythingInOrder) {
    Pair pair;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 10; ++i) {
        receives.push_back(pair.client.arena.message(pair.client.arena.take(64), 64));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receives.back()));
    }
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    // At return all are complete: no NOT_DONE in the drain loop.
    for (VIP_DESCRIPTOR* expected : receives) {
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
        ASSERT_EQ(head, expected);
        EXPECT_EQ(head->CS.Status & VIP_STATUS_DONE, static_cast<unsigned>(VIP_STATUS_DONE));
        EXPECT_EQ(head->CS.Status & VIP_STATUS_ERROR_MASK,
                  static_cast<unsigned>(VIP_STATUS_DESC_FLUSHED_ERROR));
    }
    VIP_DESCRIPTOR poison{};
    VIP_DESCRIPTOR* head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
    EXPECT_EQ(head, nullptr);
}

TEST(Disconnect, FlushesTheRemoteSideToo) {
    Pair pair;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 10; ++i) {
        receives.push_back(pair.server.arena.message(pair.server.arena.take(64), 64));
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receives.back()));
    }
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    for (VIP_DESCRIPTOR* expected : receives) {
        const Completion completion = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_DESCRIPTOR_ERROR, completion.code);
        ASSERT_EQ(completion.descriptor, expected);
        EXPECT_EQ(completion.errors(), static_cast<unsigned>(VIP_STATUS_DESC_FLUSHED_ERROR));
    }
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
}

TEST(Disconnect, FlushesSendsThatCouldNotGo) {
    // Receives of the server are exhausted on a level that does not break: nothing is lost.
    Pair pair({.level = reliable_delivery, .arena_bytes = 16U << 20});
    const std::size_t bytes =
        std::min<std::size_t>(256 * 1024, pair.client.nic.attributes().MaxTransferSize);
    std::byte* source = pair.client.arena.take(bytes);
    std::byte* target = pair.server.arena.take(bytes);
    std::vector<VIP_DESCRIPTOR*> sends;
    for (int i = 0; i < 50; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, bytes)));
    }
    for (int i = 0; i < 50; ++i) {
        sends.push_back(pair.client.arena.message(source, bytes));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(sends.back()));
    }
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    // Some went, the rest is flushed; the order is that of posting, and all are complete now.
    bool flushing = false;
    for (VIP_DESCRIPTOR* expected : sends) {
        VIP_DESCRIPTOR* head = nullptr;
        const VIP_RETURN code = VipSendDone(pair.client.vi, &head);
        ASSERT_EQ(head, expected);
        ASSERT_NE(live_status(head) & VIP_STATUS_DONE, 0U);
        if (code == VIP_SUCCESS) {
            EXPECT_FALSE(flushing) << "a success after a flushed one";
        } else {
            ASSERT_VIP(VIP_DESCRIPTOR_ERROR, code);
            EXPECT_NE(head->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
            flushing = true;
        }
    }
    EXPECT_TRUE(pair.client.vi.send_queue_empty());
}

TEST(Disconnect, OnAnIdleViFlushesPostedReceives) {
    Pair pair({.connected = false});
    VIP_DESCRIPTOR* receive = pair.client.arena.message(pair.client.arena.take(64), 64);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_recv(receive));
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.client.vi, &head));
    EXPECT_EQ(head, receive);
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
}

TEST(Disconnect, RefusesBadHandles) {
    Nic nic;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(&something));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(static_cast<VIP_NIC_HANDLE>(nic)));
}

TEST(Disconnect, TheRemoteSideSeesItThroughQueryViAlone) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
}

TEST(Disconnect, TheRemoteSideIsToldOnceAndTheCallerNever) {
    Pair pair;
    const VIP_VI_HANDLE client = pair.client.vi;
    const VIP_VI_HANDLE server = pair.server.vi;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(client));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_CONN_LOST, server));
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(server));
    // A whole further life of the connection: anything late would have come by its end.
    pair.connect_again();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(server));
    EXPECT_TRUE(pair.client.nic.errors().await(VIP_ERROR_CONN_LOST, client));
    EXPECT_EQ(pair.server.nic.errors().count(VIP_ERROR_CONN_LOST, server), 1U);
    EXPECT_EQ(pair.client.nic.errors().count(VIP_ERROR_CONN_LOST, client), 1U);
    EXPECT_EQ(pair.client.nic.errors().count(), 1U);
    EXPECT_EQ(pair.server.nic.errors().count(), 1U);
}

TEST(Disconnect, DataSentBeforeItStillArrives) {
    Pair pair;
    std::byte* target = pair.server.arena.take(64);
    std::byte* source = pair.client.arena.take(64);
    fill_pattern(source, 64, 9);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(has_pattern(target, 64, 9));
}

TEST(Disconnect, CompletionsNotYetTakenKeepTheirStatus) {
    Pair pair;
    VIP_DESCRIPTOR* done = pair.server.arena.message(pair.server.arena.take(64), 64);
    VIP_DESCRIPTOR* waiting = pair.server.arena.message(pair.server.arena.take(64), 64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(done));
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(waiting));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(64), 64)));
    ASSERT_TRUE(eventually([&] {
        static_cast<void>(pair.server.vi.state());
        return (live_status(done) & VIP_STATUS_DONE) != 0;
    }));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipRecvDone(pair.server.vi, &head));
    EXPECT_EQ(head, done);
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(pair.server.vi, &head));
    EXPECT_EQ(head, waiting);
}

TEST(Disconnect, BothAtOnce) {
    for (unsigned i = 0; i < rounds(20); ++i) {
        Pair pair;
        std::thread other([&] { EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi)); });
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
        other.join();
        EXPECT_EQ(pair.client.vi.state(), VIP_STATE_IDLE);
        EXPECT_EQ(pair.server.vi.state(), VIP_STATE_IDLE);
    }
}

TEST(Disconnect, ADescriptorOfTheOldConnectionCanBePostedAgain) {
    Pair pair;
    std::byte* target = pair.server.arena.take(64);
    VIP_DESCRIPTOR* receive = pair.server.arena.message(target, 64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
    ASSERT_EQ(pair.server.vi.drain_recv().size(), 1U);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    receive->CS.Length = 64;
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    pair.connect_again();
    std::byte* source = pair.client.arena.take(64);
    fill_pattern(source, 64, 3);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 64)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_SUCCESS, received.code);
    EXPECT_EQ(received.descriptor, receive);
    EXPECT_TRUE(has_pattern(target, 64, 3));
}

PEER(connect_and_disconnect) {
    ClientEnd client;
    client.request(link);
    link.meet();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(client.end.vi));
    link.meet();
}

TEST(Disconnect, OfAnotherProcessIsSeenThroughQueryViAlone) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    PeerProcess peer("connect_and_disconnect");
    server.accept(peer.link);
    EXPECT_EQ(server.end.vi.state(), VIP_STATE_CONNECTED);
    peer.link.meet();
    EXPECT_TRUE(server.end.vi.becomes(VIP_STATE_ERROR));
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

PEER(connect_and_stay) {
    ClientEnd client;
    client.request(link);
    link.meet();
    static_cast<void>(link.get<std::uint8_t>());  // killed here
}

TEST(Disconnect, TheDeathOfAPeerProcessFlushesAndBreaks) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 4; ++i) {
        receives.push_back(server.end.arena.message(server.end.arena.take(64), 64));
        ASSERT_VIP(VIP_SUCCESS, server.end.post_recv(receives.back()));
    }
    PeerProcess peer("connect_and_stay");
    server.accept(peer.link);
    peer.link.meet();
    peer.kill();
    EXPECT_EQ(peer.wait(), -9);
    EXPECT_TRUE(server.nic.errors().await(VIP_ERROR_CONN_LOST, server.end.vi));
    EXPECT_TRUE(server.end.vi.becomes(VIP_STATE_ERROR));
    for (VIP_DESCRIPTOR* expected : receives) {
        const Completion completion = server.end.vi.await_recv();
        ASSERT_VIP(VIP_DESCRIPTOR_ERROR, completion.code);
        EXPECT_EQ(completion.descriptor, expected);
        EXPECT_EQ(completion.errors(), static_cast<unsigned>(VIP_STATUS_DESC_FLUSHED_ERROR));
    }
    EXPECT_EQ(server.nic.errors().count(VIP_ERROR_CONN_LOST, server.end.vi), 1U);
}

TEST(Disconnect, ABlockedReceiverWakesWhenThePeerProcessDies) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    ASSERT_VIP(VIP_SUCCESS,
               server.end.post_recv(server.end.arena.message(server.end.arena.take(64), 64)));
    PeerProcess peer("connect_and_stay");
    server.accept(peer.link);
    peer.link.meet();
    VIP_RETURN code = VIP_NOT_DONE;
    VIP_DESCRIPTOR* head = nullptr;
    std::thread waiter([&] { code = VipRecvWait(server.end.vi, patience_ms, &head); });
    peer.kill();
    EXPECT_EQ(peer.wait(), -9);
    waiter.join();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, code);
    ASSERT_NE(head, nullptr);
    EXPECT_NE(head->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0U);
}

}  // namespace
}  // namespace via::test
