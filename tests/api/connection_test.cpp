// SPDX-License-Identifier: BSD-3-Clause
// Connecting, refusing and parting in the C++ API.
#include <condition_variable>
#include <mutex>
#include <vector>

#include "api/connected_pair.hpp"

namespace via_api_test {
namespace {

using namespace std::chrono_literals;

TEST(ApiConnection, ServerAndClientMeet) {
    ConnectedPair pair;
    EXPECT_TRUE(pair.server_vi.connected());
    EXPECT_TRUE(pair.client_vi.connected());
    EXPECT_EQ(need(pair.client_vi.attributes()).reliability, via::Reliability::ReliableDelivery);
}

TEST(ApiConnection, EachSideSeesTheOthersRights) {
    Side server, client;
    via::Vi server_vi = need(server.nic.create_vi({.rights = {.rdma_write = true}}));
    via::Vi client_vi = need(client.nic.create_vi());
    const std::string name = fresh_name();
    auto accepted = std::async(std::launch::async, [&] {
        via::Request request = need(server.nic.listen(server.nic.address(name)).wait(patience));
        EXPECT_EQ(request.remote(), client.nic.address("me"));
        EXPECT_FALSE(request.attributes().rights.rdma_write);
        EXPECT_EQ(request.attributes().reliability, via::Reliability::ReliableDelivery);
        need(request.accept(server_vi));
        // An answered request takes no second answer.
        EXPECT_EQ(request.accept(server_vi).error().code, VIP_INVALID_PARAMETER);
        EXPECT_EQ(request.reject().error().code, VIP_INVALID_PARAMETER);
    });
    const via::ViAttributes peer =
        need(client_vi.connect(client.nic.address("me"), client.nic.address(name), patience));
    accepted.get();
    EXPECT_TRUE(peer.rights.rdma_write);
    EXPECT_FALSE(peer.rights.rdma_read);
}

TEST(ApiConnection, NobodyListens) {
    Side client;
    via::Vi vi = need(client.nic.create_vi());
    const auto peer = vi.connect(client.nic.address(fresh_name()), 20ms);
    ASSERT_FALSE(peer);
    EXPECT_EQ(peer.error().code, VIP_NO_MATCH);
    EXPECT_FALSE(peer.error().sentence.empty());
    EXPECT_EQ(vi.state(), via::State::Idle);
}

TEST(ApiConnection, NobodyAsks) {
    const via::Nic nic = need(via::Nic::open(device));
    via::Listener listener = nic.listen(nic.address(fresh_name()));
    const auto request = listener.wait(20ms);
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().code, VIP_TIMEOUT);
}

TEST(ApiConnection, ADroppedRequestIsARejection) {
    Side server, client;
    via::Vi vi = need(client.nic.create_vi());
    for (const bool explicitly : {true, false}) {
        const std::string name = fresh_name();
        auto answered = std::async(std::launch::async, [&] {
            via::Request request = need(server.nic.listen(server.nic.address(name)).wait(patience));
            if (explicitly) need(request.reject());
        });
        const auto peer = vi.connect(client.nic.address(name), patience);
        answered.get();
        ASSERT_FALSE(peer);
        EXPECT_EQ(peer.error().code, VIP_REJECT);
        EXPECT_EQ(vi.state(), via::State::Idle);
    }
}

TEST(ApiConnection, AnUnfitViMayBeReplacedByAFitOne) {
    Side server, client;
    via::Vi unfit = need(server.nic.create_vi({.reliability = via::Reliability::Unreliable}));
    via::Vi fit = need(server.nic.create_vi());
    via::Vi vi = need(client.nic.create_vi());
    const std::string name = fresh_name();
    auto answered = std::async(std::launch::async, [&] {
        via::Request request = need(server.nic.listen(server.nic.address(name)).wait(patience));
        const auto refused = request.accept(unfit);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, VIP_INVALID_RELIABILITY_LEVEL);
        need(request.accept(fit));
    });
    need(vi.connect(client.nic.address(name), patience));
    answered.get();
    EXPECT_TRUE(fit.connected());
    EXPECT_EQ(unfit.state(), via::State::Idle);
}

TEST(ApiConnection, PeersMeetInAnyOrder) {
    Side left, right;
    via::Vi left_vi = need(left.nic.create_vi());
    via::Vi right_vi = need(right.nic.create_vi());
    const std::string name = fresh_name();
    const via::Address left_address = left.nic.address(name + "L");
    const via::Address right_address = right.nic.address(name + "R");
    auto met = std::async(std::launch::async, [&] {
        need(left_vi.connect_peer(left_address, right_address, patience));
    });
    need(right_vi.connect_peer(right_address, left_address, patience));
    met.get();
    EXPECT_TRUE(left_vi.connected());
    EXPECT_TRUE(right_vi.connected());
}

TEST(ApiConnection, APeerThatNeverComes) {
    Side side;
    via::Vi vi = need(side.nic.create_vi());
    const std::string name = fresh_name();
    const auto peer =
        vi.connect_peer(side.nic.address(name + "L"), side.nic.address(name + "R"), 20ms);
    ASSERT_FALSE(peer);
    EXPECT_EQ(peer.error().code, VIP_TIMEOUT);
}

TEST(ApiConnection, DisconnectGivesBuffersBackAndAllowsAnother) {
    ConnectedPair pair;
    need(pair.client_vi.post_receive(pair.client.pool.take()));
    need(pair.client_vi.post_receive(pair.client.pool.take()));
    need(pair.client_vi.disconnect());
    EXPECT_EQ(pair.client_vi.state(), via::State::Idle);
    for (int i = 0; i < 2; ++i) {
        const auto flushed = pair.client_vi.poll_receive();
        ASSERT_TRUE(flushed);
        EXPECT_FALSE(flushed->ok());
        EXPECT_NE(flushed->status & VIP_STATUS_DESC_FLUSHED_ERROR, 0u);
    }
    EXPECT_FALSE(pair.client_vi.poll_receive());

    via::Vi second = need(pair.server.nic.create_vi());
    connect(pair.server.nic, second, pair.client.nic, pair.client_vi);
    EXPECT_TRUE(pair.client_vi.connected());
}

TEST(ApiConnection, ADroppedViReturnsItsBuffers) {
    Side server, client;
    {
        via::Vi server_vi = need(server.nic.create_vi());
        via::Vi client_vi = need(client.nic.create_vi());
        connect(server.nic, server_vi, client.nic, client_vi);
        for (int i = 0; i < 5; ++i)
            need(client_vi.post_receive(client.pool.take()));
        EXPECT_EQ(client.pool.available(), client.pool.size() - 5);
    }
    EXPECT_EQ(client.pool.available(), client.pool.size());
}

TEST(ApiConnection, ThePeerLeavesAndIsReported) {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<VIP_ERROR_CODE> errors;
    Side server, client;  // after what the handler uses, so that it is closed before that goes
    need(server.nic.on_error([&](const VIP_ERROR_DESCRIPTOR& error) {
        const std::lock_guard lock(mutex);
        errors.push_back(error.ErrorCode);
        changed.notify_all();
    }));
    via::Vi server_vi = need(server.nic.create_vi());
    need(server_vi.post_receive(server.pool.take()));
    {
        via::Vi client_vi = need(client.nic.create_vi());
        connect(server.nic, server_vi, client.nic, client_vi);
    }
    const via::Completion flushed = need(server_vi.wait_receive(patience));
    EXPECT_FALSE(flushed.ok());
    EXPECT_EQ(server_vi.state(), via::State::Error);
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, patience, [&] { return !errors.empty(); }));
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors.front(), VIP_ERROR_CONN_LOST);
}

}  // namespace
}  // namespace via_api_test
