// SPDX-License-Identifier: BSD-3-Clause
// AgentClient against a real viad: connections of the net fabric, which have a key and no channel.
#include "ka/client.hpp"

#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "ka/client_parts.hpp"
#include "ka/host_address.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

/// An offer between two processes of this host over the net fabric, by Internet addresses.
ConnectOffer net_offer(const TestProcess& process, std::uint32_t vi, std::string_view local,
                       std::string_view remote) {
    ConnectOffer result = offer(vi, local, remote);
    AgentAddress here;
    here.family = 4;
    here.port = process->net_port();
    here.ip = {127, 0, 0, 1};
    set_host(result.local, here);
    here.ip = {127, 0, 0, 2};  // another name of the same host
    set_host(result.remote, here);
    result.fabric = fabric_net;
    result.channel_bytes = 0;
    return result;
}

TEST_F(ClientTest, AConnectionOfTheNetFabricHasAKeyAndNoChannel) {
    TestProcess client;
    TestProcess server;
    EXPECT_NE(client->net_port(), 0);
    const std::uint32_t client_vi = client->create_vi().value();
    const std::uint32_t server_vi = server->create_vi().value();
    const ConnectOffer asked = net_offer(client, client_vi, "c", "s");
    const ConnectOffer answer = net_offer(server, server_vi, "s", "c");
    base::Result<Established> at_server{Code::NoMatch, ""};
    std::uint32_t fabric = 0;
    std::thread serving([&] {
        // Under the name that every process of the host knows, for both fabrics.
        NetAddress place = answer.local;
        set_host(place, host_address());
        auto incoming = server->connect_wait(place, soon(), nullptr, all_fabrics);
        if (!incoming) return;
        fabric = incoming.value().fabric;
        EXPECT_EQ(incoming.value().remote, asked.local);
        at_server = server->connect_accept(incoming.value().request, answer, soon());
    });
    base::Result<Established> at_client{Code::NoMatch, ""};
    const Deadline deadline = soon();
    while (!at_client && at_client.error().code == Code::NoMatch && !deadline.expired())
        at_client = client->connect_request(asked, soon());
    serving.join();
    ASSERT_TRUE(at_client.ok()) << at_client.error().sentence;
    ASSERT_TRUE(at_server.ok()) << at_server.error().sentence;
    EXPECT_EQ(fabric, fabric_net);
    EXPECT_FALSE(at_client.value().channel.valid());
    EXPECT_EQ(at_client.value().channel_bytes, 0U);
    EXPECT_EQ(at_client.value().session_key, at_server.value().session_key);
    EXPECT_NE(at_client.value().session_key, SessionKey{});
    EXPECT_TRUE(at_client.value().peer.pidfd.valid());
    EXPECT_EQ(at_client.value().remote_address, answer.local);
    // Such a connection is no less one: its VI is taken, and its end is told.
    EXPECT_EQ(client->connect_request(asked, soon()).error().code, Code::InvalidState);
    client->disconnected(at_client.value().connection);
    std::vector<std::uint64_t> lost;
    while (lost.empty() && !deadline.expired())
        lost = server->lost_connections();
    EXPECT_EQ(lost, std::vector{at_server.value().connection});
}

TEST_F(ClientTest, PeersMeetOnTheNetFabric) {
    TestProcess one;
    TestProcess other;
    const ConnectOffer first = net_offer(one, one->create_vi().value(), "a", "b");
    ConnectOffer second = net_offer(other, other->create_vi().value(), "b", "a");
    const auto asked = one->peer_request(first, soon());
    const auto answered = other->peer_request(second, soon());
    ASSERT_TRUE(asked.ok() && answered.ok());
    auto at_one = one->peer_wait(asked.value());
    auto at_other = other->peer_wait(answered.value());
    ASSERT_TRUE(at_one.ok() && at_other.ok());
    EXPECT_NE(at_one.value().requester, at_other.value().requester);
    EXPECT_EQ(at_one.value().session_key, at_other.value().session_key);
    EXPECT_FALSE(at_one.value().channel.valid());
    EXPECT_TRUE(at_one.value().peer.rmmt.valid());
    // Channels are the shm fabric's.
    second.channel_bytes = 4096;
    second.vi = other->create_vi().value();
    EXPECT_EQ(other->connect_request(second, soon()).error().code, Code::InvalidArgument);
}

}  // namespace
}  // namespace via::ka::test
