// SPDX-License-Identifier: BSD-3-Clause
// A packet longer than a datagram: which links carry it, and what one lost datagram costs.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

/// One message from side 0 to side 1, in a network that keeps its order.
class LongPackets : public testing::Test {
  protected:
    static constexpr std::size_t bytes = 500'000;
    static constexpr std::uint32_t token = 900;

    LongPackets() : LongPackets(options_of(1)) {}
    explicit LongPackets(NetworkOptions options) {
        options.faults.jitter = 0;
        options.tokens = token;
        network.emplace(36, options);
        fill_pattern(from.data, 8);
        network->on_packet = [&](std::size_t side, std::size_t, std::span<const std::byte> packet) {
            if (side != 0) return;
            const auto word = wire::load<std::uint32_t>(packet.data());
            if (~word == receivers_token())
                ++begun;
            else if (word == receivers_token() && packet.size() > 1'000)
                ++full;
        };
    }
    void SetUp() override {
        network->run(20 * millisecond, [] { return false; });  // the link is up
        sends_all();                                           // one has shown the way
        begun = full = 0;
    }
    [[nodiscard]] static std::uint32_t receivers_token() { return token + 1; }
    void sends_all() {
        fill_pattern(to.data, 9);
        network->side(1).post_receive(to.part(0, bytes), to.handle, 1);
        network->side(0).post_send(from.part(0, bytes), from.handle, std::nullopt, 2);
        network->poll(0);
        std::optional<na::WorkEntry> entry;
        ASSERT_TRUE(network->run(1'000 * millisecond, [&] {
            if (!entry) entry = network->side(1).completed(network->side(1).queues.receive);
            return entry.has_value();
        }));
        EXPECT_EQ(error_of(entry), 0U);
        EXPECT_EQ(matching_bytes(to.data, 8), bytes);
        // What came twice counts as sent once.
        ASSERT_TRUE(network->run(1'000 * millisecond, [&] {
            return network->side(0).completed(network->side(0).queues.send).has_value();
        }));
    }

    Memory from{bytes};
    Memory to{bytes};
    std::optional<SimulatedNetwork> network;
    std::size_t begun = 0;  ///< long packets
    std::size_t full = 0;   ///< others that fill a datagram
};

class LongPacketsJoined : public LongPackets {
  protected:
    LongPacketsJoined() : LongPackets(joined()) {}

  private:
    static NetworkOptions joined() {
        NetworkOptions options = options_of(1);
        options.faults.joined = 10'000;
        options.lends = false;  // what is lent ends in a short datagram, and is told apart by that
        return options;
    }
};

struct SlowLink {
    const char* name;
    double bytes_per_second;
    std::size_t datagrams;  ///< of a packet, most often; 1: none is long
};

/// A link that is slower than the processor.
class LongPacketsOnASlowLink : public LongPackets, public testing::WithParamInterface<SlowLink> {
  protected:
    LongPacketsOnASlowLink() : LongPackets(slow()) {}

  private:
    static NetworkOptions slow() {
        NetworkOptions options = options_of(1);
        options.faults.bytes_per_second = GetParam().bytes_per_second;
        options.faults.queue_bytes = 1'000'000;
        return options;
    }
};

TEST_P(LongPacketsOnASlowLink, DoNotTakeLong) {
    for (int i = 0; i < 3; ++i)
        sends_all();  // the rate is known
    begun = full = 0;
    sends_all();
    // It is the rate, not a loss.
    const links::Link& link = network->side(0).transport.link(0);
    EXPECT_LT(link.rate(), 1.6 * GetParam().bytes_per_second);
    EXPECT_EQ(link.counters().lost_packets, link.counters().spurious_losses);
    const std::size_t datagrams = GetParam().datagrams;
    if (datagrams == 1) {
        EXPECT_EQ(begun, 0U);
        return;
    }
    const std::size_t expected = bytes / 1'400 / datagrams;
    EXPECT_GE(begun, expected / 2);
    EXPECT_LE(begun, expected * 2);
}

INSTANTIATE_TEST_SUITE_P(Links, LongPacketsOnASlowLink,
                         testing::Values(SlowLink{"gigabit", 125e6, 44},
                                         SlowLink{"quarter_of_it", 31e6, 11},
                                         SlowLink{"too_slow", 2e6, 1}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(LongPackets, CarryALongMessage) {
    sends_all();
    EXPECT_EQ(full, 0U);
    EXPECT_GE(begun, 8U);
    EXPECT_LE(begun, 10U);
}

TEST_F(LongPacketsJoined, AreTakenWhereTheyLie) {
    sends_all();
    EXPECT_EQ(full, 0U);
    EXPECT_GE(begun, 8U);
    EXPECT_EQ(network->side(1).transport.damaged_packets(), 0U);
}

/// Loses the n-th datagram of full length.
void lose_nth(SimulatedNetwork& network, std::size_t nth, std::size_t& seen) {
    network.swallows = [&seen, nth](std::size_t side, std::size_t,
                                    std::span<const std::byte> packet) {
        return side == 0 && packet.size() > 1'000 && ++seen == nth;
    };
}

TEST_F(LongPackets, OneDatagramLostAndTheRestGoesInShortOnes) {
    // The first of a packet, one in its middle, its last one.
    for (const std::size_t nth : {std::size_t{47}, std::size_t{70}, std::size_t{92}}) {
        SCOPED_TRACE(nth);
        full = 0;
        std::size_t seen = 0;
        lose_nth(*network, nth, seen);
        sends_all();
        EXPECT_GT(full, 40U);
        // Until so many have come through, none is tried again.
        begun = 0;
        sends_all();
        EXPECT_EQ(begun, 0U);
        // Each loss makes it wait longer for the next.
        for (int i = 0; i < 40 && network->side(0).transport.link(0).longest_packet() == 0; ++i)
            sends_all();
        EXPECT_NE(network->side(0).transport.link(0).longest_packet(), 0U);
    }
}

TEST_F(LongPacketsJoined, OneThatMissesADatagramDoesNotCostThoseBehindIt) {
    std::size_t seen = 0;
    lose_nth(*network, 70, seen);
    sends_all();
    EXPECT_GT(full, 40U);
    EXPECT_GE(network->side(1).transport.damaged_packets(), 1U);
}

/// As joined datagrams come from a socket that is not asked for their length.
class LongPacketsUnmeasured : public LongPacketsJoined {
  protected:
    void expect_nothing_lost() {
        EXPECT_EQ(network->side(0).transport.link(0).counters().lost_packets, 0U);
        EXPECT_EQ(network->side(1).transport.damaged_packets(), 0U);
    }
    void SetUp() override {
        network->faults(0).unmeasured = 10'000;
        LongPacketsJoined::SetUp();
    }
};

TEST_F(LongPacketsUnmeasured, AreTakenAllTheSame) {
    sends_all();
    EXPECT_GE(begun, 8U);
    expect_nothing_lost();
}

TEST_F(LongPacketsUnmeasured, AndInPieces) {
    for (const std::uint32_t joined : {0U, 5'000U, 9'500U}) {
        network->faults(0).joined = joined;
        begun = 0;
        sends_all();
        EXPECT_GE(begun, 8U);
        expect_nothing_lost();
    }
}

TEST_F(LongPacketsUnmeasured, OneThatMissesADatagramDoesNotCostThoseBehindIt) {
    std::size_t seen = 0;
    lose_nth(*network, 70, seen);
    sends_all();
    EXPECT_EQ(network->side(0).transport.link(0).counters().lost_packets, 1U);
    EXPECT_GT(full, 40U);
}

/// Trains of short packets: where each ends, the next one and the checksum tell.
TEST_F(LongPacketsUnmeasured, ShortOnesAreToldApart) {
    std::size_t seen = 0;
    lose_nth(*network, 70, seen);
    sends_all();
    const std::uint64_t lost = network->side(0).transport.link(0).counters().lost_packets;
    begun = full = 0;
    sends_all();
    EXPECT_EQ(begun, 0U);
    EXPECT_GT(full, 300U);
    EXPECT_EQ(network->side(0).transport.link(0).counters().lost_packets, lost);
}

TEST_F(LongPackets, NoneWhereTheirDatagramsChangePlaces) {
    network->faults(0).jitter = 50 * microsecond;
    sends_all();
    begun = 0;
    // 15,000 packets: each trial costs one, and the next is twice as far away.
    for (int i = 0; i < 40; ++i)
        sends_all();
    EXPECT_LE(begun, 5U);
}

}  // namespace
}  // namespace via::test
