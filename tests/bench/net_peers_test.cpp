// SPDX-License-Identifier: BSD-3-Clause
// Plain sockets between lab hosts give values that can be; what they are is the machine's.
#include "net/net_peers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "net/net_probes.hpp"

namespace via::bench {
namespace {

class NetPeers : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = lab::Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        auto cores = bare::two_cores();
        if (!cores) GTEST_SKIP() << cores.error().sentence;
        auto lab = lab::Lab::up({.name = {}, .links = 1});
        ASSERT_TRUE(lab) << lab.error().sentence;
        lab_ = std::make_unique<lab::Lab>(std::move(lab).value());
        place_.lab = lab_.get();
        place_.cores = cores.value();
    }

    std::unique_ptr<lab::Lab> lab_;
    NetPlace place_;
};

TEST_F(NetPeers, PingPongsGiveTheirSamples) {
    NetPingPong wanted;
    wanted.samples = 20;
    wanted.round_trips = 4;
    wanted.warm_up_samples = 2;
    // Also a message that TCP takes in pieces; UDP has to do with less.
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{60'000}}) {
        wanted.bytes = bytes;
        for (auto* ping_pong : {udp_ping_pong, tcp_ping_pong}) {
            const auto samples = ping_pong(place_, wanted);
            ASSERT_TRUE(samples) << samples.error().sentence;
            EXPECT_EQ(samples.value().size(), 20u);
            EXPECT_GT(*std::min_element(samples.value().begin(), samples.value().end()), 0);
        }
    }
}

TEST_F(NetPeers, ADelayOnTheLinkIsInTheLatency) {
    ASSERT_TRUE(lab_->link(0).delay(5'000'000));
    NetPingPong wanted;
    wanted.samples = 5;
    wanted.round_trips = 1;
    wanted.warm_up_samples = 1;
    const auto samples = udp_ping_pong(place_, wanted);
    ASSERT_TRUE(samples) << samples.error().sentence;
    EXPECT_GE(bare::median(samples.value()), 5e6);
}

TEST_F(NetPeers, StreamsCountWhatArrives) {
    NetStream wanted;
    wanted.time = 300'000'000;
    for (const std::size_t per_call : {std::size_t{1}, std::size_t{16}}) {
        wanted.bytes = 4096;
        wanted.messages_per_call = per_call;
        wanted.congestion = per_call == 1 ? "cubic" : "";
        const auto take = tcp_stream(place_, wanted);
        ASSERT_TRUE(take) << take.error().sentence;
        EXPECT_GT(take.value().bytes_per_second, 0);
        // All whole messages that were sent have come.
        EXPECT_GE(take.value().messages, take.value().messages_sent);
        EXPECT_GT(take.value().messages_sent, 0u);
        EXPECT_GT(take.value().cpu_seconds_per_gigabyte(), 0);
    }
    wanted.bytes = 64;
    const auto rate = udp_messages(place_, wanted);
    ASSERT_TRUE(rate) << rate.error().sentence;
    EXPECT_LE(rate.value().messages, rate.value().messages_sent);
    EXPECT_EQ(rate.value().bytes, rate.value().messages * 64);
    wanted.bytes = 1 << 20;
    const auto trains = udp_trains(place_, wanted);
    ASSERT_TRUE(trains) << trains.error().sentence;
    EXPECT_GT(trains.value().bytes_per_second, 0);
    EXPECT_LE(trains.value().bytes, (trains.value().messages_sent + 1) * wanted.bytes);
}

TEST_F(NetPeers, AStreamIsNoFasterThanItsLink) {
    ASSERT_TRUE(lab_->link(0).rate(50'000'000));
    NetStream wanted;
    wanted.bytes = 65536;
    wanted.time = 500'000'000;
    wanted.congestion = "cubic";
    const auto take = tcp_stream(place_, wanted);
    ASSERT_TRUE(take) << take.error().sentence;
    EXPECT_LT(take.value().bytes_per_second, 2 * 50e6 / 8);
}

TEST_F(NetPeers, WhatCanNotBeIsAnError) {
    NetStream nothing;
    nothing.bytes = 0;
    EXPECT_FALSE(tcp_stream(place_, nothing));
    NetStream strange;
    strange.congestion = "telepathy";
    const auto refused = tcp_stream(place_, strange);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().sentence.find("telepathy"), std::string::npos);
    // A link that carries nothing: an end, not a hang.
    ASSERT_TRUE(lab_->link(0).silent(true));
    place_.deadline_seconds = 1;
    EXPECT_FALSE(udp_ping_pong(place_, NetPingPong{}));
    ASSERT_TRUE(lab_->link(0).silent(false));
    place_.deadline_seconds = 20;
    EXPECT_TRUE(bare_udp_latency(place_, 8).take());
}

}  // namespace
}  // namespace via::bench
