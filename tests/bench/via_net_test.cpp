// SPDX-License-Identifier: BSD-3-Clause
// The probes of our own side, and libfabric, give values that can be; what they are is the
// machine's.
#include "net/via_net.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "net/fabric_peer.hpp"
#include "net/shared_link.hpp"

namespace via::bench {
namespace {

constexpr std::uint64_t rate = 200'000'000;

class ViaNet : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const auto possible = lab::Lab::possible(); !possible)
            GTEST_SKIP() << possible.error().sentence;
        auto cores = bare::two_cores();
        if (!cores) GTEST_SKIP() << cores.error().sentence;
        auto lab = lab::Lab::up({.name = {}, .links = 2});
        ASSERT_TRUE(lab) << lab.error().sentence;
        lab_ = std::make_unique<lab::Lab>(std::move(lab).value());
        for (const unsigned link : {0U, 1U})
            ASSERT_TRUE(lab_->link(link).rate(rate));
        via_ = std::make_unique<ViaTool>(VIA_TOOL_PATH, "", cores.value(),
                                         "@viaduct/bench-test/" + std::to_string(::getpid()));
        place_.lab = lab_.get();
        place_.link = 1;
        place_.cores = cores.value();
    }

    std::unique_ptr<lab::Lab> lab_;
    std::unique_ptr<ViaTool> via_;
    NetPlace place_;
};

TEST_F(ViaNet, AStreamIsNoFasterThanTheLinksItMayUse) {
    NetForm form{.lab = lab_.get(), .bytes = 65536, .links = "link1", .rate = rate};
    const auto stream = via_net_stream(*via_, form).take();
    ASSERT_TRUE(stream) << stream.error().sentence;
    EXPECT_GT(stream.value(), 0);
    EXPECT_LT(stream.value(), 1.5 * rate / 8);
    const auto cpu = via_net_cpu(*via_, form).take();
    ASSERT_TRUE(cpu) << cpu.error().sentence;
    EXPECT_GT(cpu.value(), 0);
    form.bytes = 8;
    form.rate = 0;
    const auto latency = via_net_latency(*via_, form).take();
    ASSERT_TRUE(latency) << latency.error().sentence;
    EXPECT_GT(latency.value(), 0);
}

TEST_F(ViaNet, LibfabricPlaysToo) {
    if (const std::string missing = fabric_missing(); !missing.empty()) GTEST_SKIP() << missing;
    NetPingPong wanted;
    wanted.samples = 20;
    wanted.round_trips = 4;
    wanted.warm_up_samples = 2;
    const auto samples = fabric_ping_pong(place_, wanted);
    ASSERT_TRUE(samples) << samples.error().sentence;
    EXPECT_EQ(samples.value().size(), 20u);
    EXPECT_GT(*std::min_element(samples.value().begin(), samples.value().end()), 0);
    wanted.bytes = std::size_t{1} << 20;
    EXPECT_FALSE(fabric_ping_pong(place_, wanted)) << "more than can be injected";
}

TEST_F(ViaNet, StreamsShareALink) {
    SharedLink wanted{.our_streams = 1, .tcp_streams = 1, .congestion = "cubic"};
    wanted.time = 500'000'000;
    const auto share = our_share(*via_, place_, wanted).take();
    ASSERT_TRUE(share) << share.error().sentence;
    EXPECT_GT(share.value(), 0);
    EXPECT_LT(share.value(), 100);
    wanted.tcp_streams = 0;
    const auto alone = our_share(*via_, place_, wanted).take();
    ASSERT_TRUE(alone) << alone.error().sentence;
    EXPECT_GT(alone.value(), 99);
}

}  // namespace
}  // namespace via::bench
