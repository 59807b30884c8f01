// SPDX-License-Identifier: BSD-3-Clause
#include "connection_links.hpp"

#include <gtest/gtest.h>

namespace via::tool {
namespace {

LinkSnapshot link(std::size_t slot, std::uint64_t vi, std::uint64_t bytes, std::uint64_t packets,
                  std::uint64_t lost) {
    LinkSnapshot one;
    one.slot = slot;
    one.vi_slot = vi;
    one.text = "eth" + std::to_string(slot);
    one.sent_bytes = bytes;
    one.sent_packets = packets;
    one.lost_packets = lost;
    return one;
}

CountersSnapshot snapshot(double seconds, std::vector<LinkSnapshot> links) {
    CountersSnapshot one;
    one.taken_monotonic_ns = static_cast<std::int64_t>(seconds * 1e9);
    one.links = std::move(links);
    ViSnapshot vi;
    vi.slot = 3;
    vi.device = "net0";
    one.vis.push_back(vi);
    return one;
}

TEST(LinksOfConnections, OneLookHasSharesButNoRates) {
    const auto connections = links_of_connections(
        snapshot(10, {link(0, 3, 3000, 30, 3), link(1, 3, 1000, 10, 0), link(2, 5, 7, 0, 0)}), {});
    ASSERT_EQ(connections.size(), 2u);
    EXPECT_EQ(connections[0].vi_slot, 3u);
    EXPECT_EQ(connections[0].device, "net0");
    ASSERT_EQ(connections[0].links.size(), 2u);
    EXPECT_DOUBLE_EQ(connections[0].links[0].share, 0.75);
    EXPECT_DOUBLE_EQ(connections[0].links[0].lost, 0.1);
    EXPECT_FALSE(connections[0].links[0].sent_bytes_per_s);
    EXPECT_EQ(connections[1].device, "") << "a VI that is not there";
    EXPECT_DOUBLE_EQ(connections[1].links[0].lost, 0) << "nothing was sent";
}

TEST(LinksOfConnections, TwoLooksShowWhatHappenedBetweenThem) {
    const auto before = snapshot(10, {link(0, 3, 3000, 30, 3), link(1, 3, 1000, 10, 0)});
    const auto after = snapshot(12, {link(0, 3, 3000, 30, 3), link(1, 3, 5000, 50, 4)});
    const auto connections = links_of_connections(after, before);
    ASSERT_EQ(connections.size(), 1u);
    const LinkReport& still = connections[0].links[0];
    const LinkReport& busy = connections[0].links[1];
    EXPECT_DOUBLE_EQ(*still.sent_bytes_per_s, 0);
    EXPECT_DOUBLE_EQ(still.share, 0);
    EXPECT_DOUBLE_EQ(still.lost, 0) << "lost before is not lost now";
    EXPECT_DOUBLE_EQ(*busy.sent_bytes_per_s, 2000);
    EXPECT_DOUBLE_EQ(busy.share, 1);
    EXPECT_DOUBLE_EQ(busy.lost, 0.1);
}

TEST(LinksOfConnections, ASlotThatIsUsedAgainIsAnotherLink) {
    const auto before = snapshot(10, {link(0, 3, 3000, 30, 3)});
    const auto after = snapshot(12, {link(0, 3, 100, 1, 0)});
    const auto connections = links_of_connections(after, before);
    EXPECT_FALSE(connections[0].links[0].sent_bytes_per_s);
    EXPECT_DOUBLE_EQ(connections[0].links[0].share, 1);
}

}  // namespace
}  // namespace via::tool
