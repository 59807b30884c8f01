// SPDX-License-Identifier: BSD-3-Clause
// Connections to another process: one that does not wait, one that answers, and those that die
// before there is a connection.
#include <cstddef>
#include <cstdlib>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

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

}  // namespace
}  // namespace via::test
