// SPDX-License-Identifier: BSD-3-Clause
// The switch: cables that are busy, receivers that are full, and who waits for whom.
#include "sim/model/switch.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace via::sim {
namespace {

/// 100 MB/s: a byte in 10 ns. A header of 10 bytes, a hop of 1000 ns.
Nic simple_nic() {
    Nic nic;
    nic.link = 100;
    nic.packet_header = 10;
    nic.hop = 1000;
    return nic;
}

constexpr double fast_sender = 1e12;

struct Arrival {
    Time at;
    std::uint64_t message;
};

class SwitchTest : public testing::Test {
  protected:
    SwitchTest() : network_(simulation_, simple_nic(), 3, 1, "") {}

    Task<> send(std::uint32_t from, std::uint32_t to, std::uint64_t message, std::uint64_t bytes,
                double rate = fast_sender) {
        Packet packet;
        packet.from = from;
        packet.to = to;
        packet.message = message;
        packet.bytes = bytes;
        packet.buffer = co_await network_.receive_buffer(to);
        co_await network_.carry(std::move(packet), rate);
    }
    /// Each packet keeps its buffer for a while.
    Task<> receive(std::uint32_t port, int count, Time keep) {
        for (int i = 0; i < count; ++i) {
            const Packet packet = co_await network_.arrivals(port).take();
            arrivals_.push_back({simulation_.now(), packet.message});
            co_await simulation_.delay(keep);
        }
    }

    Simulation simulation_;
    Switch network_;
    std::vector<Arrival> arrivals_;
};

TEST_F(SwitchTest, APacketTakesItsLengthAndTheHop) {
    simulation_.spawn(send(0, 1, 7, 90));
    simulation_.spawn(receive(1, 1, 0));
    ASSERT_TRUE(simulation_.run());
    ASSERT_EQ(arrivals_.size(), 1U);
    EXPECT_EQ(arrivals_[0].message, 7U);
    EXPECT_EQ(arrivals_[0].at, nanoseconds(100 * 10 + 1000));
}

TEST_F(SwitchTest, ASlowSenderHoldsTheLink) {
    simulation_.spawn(send(0, 1, 1, 90, 50e6));
    simulation_.spawn(receive(1, 1, 0));
    ASSERT_TRUE(simulation_.run());
    EXPECT_EQ(arrivals_[0].at, nanoseconds(100 * 20 + 1000));
}

TEST_F(SwitchTest, TwoSendersToOneReceiverShareItsCable) {
    simulation_.spawn(send(0, 2, 1, 90));
    simulation_.spawn(send(1, 2, 2, 90));
    simulation_.spawn(receive(2, 2, 0));
    ASSERT_TRUE(simulation_.run());
    ASSERT_EQ(arrivals_.size(), 2U);
    // The second has to wait for the only buffer, which is free when the first has been taken.
    EXPECT_GE(arrivals_[1].at - arrivals_[0].at, nanoseconds(1000));
}

TEST_F(SwitchTest, TwoPairsDoNotDisturbEachOther) {
    simulation_.spawn(send(0, 1, 1, 90));
    simulation_.spawn(send(1, 2, 2, 90));
    simulation_.spawn(receive(1, 1, 0));
    simulation_.spawn(receive(2, 1, 0));
    ASSERT_TRUE(simulation_.run());
    ASSERT_EQ(arrivals_.size(), 2U);
    EXPECT_EQ(arrivals_[0].at, arrivals_[1].at);
}

TEST_F(SwitchTest, AFullReceiverStopsItsSenders) {
    for (std::uint64_t i = 0; i < 3; ++i)
        simulation_.spawn(send(0, 1, i, 90));
    simulation_.spawn(receive(1, 3, nanoseconds(50000)));
    ASSERT_TRUE(simulation_.run());
    ASSERT_EQ(arrivals_.size(), 3U);
    EXPECT_GE(arrivals_[2].at - arrivals_[1].at, nanoseconds(50000));
    for (std::uint64_t i = 0; i < 3; ++i)
        EXPECT_EQ(arrivals_[i].message, i);
}

TEST_F(SwitchTest, AHostCanSendToItself) {
    simulation_.spawn(send(1, 1, 5, 90));
    simulation_.spawn(receive(1, 1, 0));
    ASSERT_TRUE(simulation_.run());
    EXPECT_EQ(arrivals_.size(), 1U);
}

TEST(HostName, Letters) {
    EXPECT_EQ(host_name(0), "a");
    EXPECT_EQ(host_name(25), "z");
    EXPECT_EQ(host_name(26), "a1");
}

}  // namespace
}  // namespace via::sim
