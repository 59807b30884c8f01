// SPDX-License-Identifier: BSD-3-Clause
// RDMA: refused where names or rights are wrong, done once all of it has come.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

struct RdmaTarget {
    const std::byte* address;
    std::uint32_t handle;
};

/// Performs an RDMA write that must be refused: the memory stays as it is, the target's end says
/// why, and the sender hears it.
void expect_write_refused(SimulatedNetwork& network, const RdmaTarget& target) {
    Memory from(5'000);
    fill_pattern(from.data, 1);
    Side& sender = network.side(0);
    sender.post_write(from.part(0, 5'000), from.handle, target.address, target.handle, std::nullopt,
                      1);
    network.poll(0);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return network.side(1).session.halted(); }));
    EXPECT_TRUE(has_event(network.side(1), EndpointEvent::RdmaWriteRefused));
    EXPECT_FALSE(has_event(network.side(1), EndpointEvent::ProtocolViolation));
    disconnect(network, 1);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_rdma_protection);
}

class Rdma : public testing::Test {
  protected:
    SimulatedNetwork network{20, options_of(1, na::reliable_reception)};
    Memory target{5'000, ka::right_rdma_write | ka::right_rdma_read};
};

TEST_F(Rdma, WithTheRightNamesItIsDone) {
    Memory from(5'000);
    fill_pattern(from.data, 1);
    Side& sender = network.side(0);
    sender.post_write(from.part(0, 5'000), from.handle, target.data.data(), target.handle,
                      std::nullopt, 1);
    network.poll(0);
    std::optional<na::WorkEntry> entry;
    network.run(100 * millisecond, [&] {
        entry = sender.completed(sender.queues.send);
        return entry.has_value();
    });
    EXPECT_EQ(error_of(entry), 0U);
    EXPECT_EQ(matching_bytes(target.data, 1), 5'000U);
}

TEST_F(Rdma, AWrongHandleIsRefused) {
    expect_write_refused(network, {target.data.data(), target.handle + (1U << 16U)});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, AnotherTagsMemoryIsRefused) {
    Memory foreign(5'000, ka::right_rdma_write, 2);
    expect_write_refused(network, {foreign.data.data(), foreign.handle});
    EXPECT_TRUE(foreign.untouched());
}

TEST_F(Rdma, ARangeBeyondTheRegionIsRefused) {
    expect_write_refused(network, {target.data.data() + 1, target.handle});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, ARangeBeforeTheRegionIsRefused) {
    expect_write_refused(network, {target.data.data() - 1, target.handle});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, MemoryWithoutTheRightIsRefused) {
    Memory closed(5'000, ka::right_rdma_read);
    expect_write_refused(network, {closed.data.data(), closed.handle});
    EXPECT_TRUE(closed.untouched());
}

TEST_F(Rdma, AViWithoutTheRightRefuses) {
    network.side(1).queues.local.rights = ka::right_rdma_read;
    expect_write_refused(network, {target.data.data(), target.handle});
    EXPECT_TRUE(target.untouched());
}

TEST_F(Rdma, AReadThatIsNotAllowedIsRefused) {
    Memory closed(5'000, ka::right_rdma_write);
    fill_pattern(closed.data, 3);
    Memory place(5'000);
    Side& reader = network.side(0);
    reader.post_read(place.part(0, 5'000), place.handle, closed.data.data(), closed.handle, 1);
    network.poll(0);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return network.side(1).session.halted(); }));
    EXPECT_TRUE(has_event(network.side(1), EndpointEvent::RdmaReadRefused));
    disconnect(network, 1);
    ASSERT_TRUE(network.run(100 * millisecond, [&] { return reader.session.peer_closed(); }));
    EXPECT_EQ(error_of(reader.completed(reader.queues.send)), na::status_rdma_protection);
    EXPECT_TRUE(place.untouched());
}

/// The end of an RDMA write is held back until all of it has come. It may come twice and cut
/// differently, when it was sent again: then all of it is there too.
TEST(SessionRdma, TheEndOfAWriteMayComeTwiceInOtherPieces) {
    constexpr std::uint32_t total = 61;
    for (std::uint32_t first = 1; first <= 12; ++first)
        for (std::uint32_t second = 1; second <= 12; ++second) {
            SCOPED_TRACE(std::to_string(first) + " bytes, then " + std::to_string(second));
            SimulatedNetwork network(1, {});
            Memory target(total, ka::right_rdma_write);
            std::vector<std::byte> data(total);
            fill_pattern(data, 5);
            const auto take = [&](std::uint32_t begin, std::uint32_t end) {
                wire::DataFrame frame;
                frame.type = wire::FrameType::RdmaWrite;
                frame.length = static_cast<std::uint16_t>(end - begin);
                frame.total = total;
                frame.offset = begin;
                frame.address = reinterpret_cast<std::uint64_t>(target.data.data());
                frame.handle = target.handle;
                EXPECT_TRUE(network.side(1).session.take(
                    frame, std::span(data).subspan(begin, end - begin)));
            };
            take(total - first, total);
            take(total - second, total);
            take(0, total - std::max(first, second));
            ASSERT_EQ(network.side(1).session.delivered(), 1U);
            ASSERT_EQ(target.data, data);
        }
}

}  // namespace
}  // namespace via::test
