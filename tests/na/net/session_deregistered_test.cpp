// SPDX-License-Identifier: BSD-3-Clause
// Memory that is deregistered while an operation uses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "na/net/session_parts.hpp"

namespace via::test {
namespace {

/// Until some, but not all, has come.
bool run_into_the_middle(SimulatedNetwork& network, const Memory& to) {
    return network.run(1'000 * millisecond,
                       [&] { return to.data[long_bytes / 2] != std::byte{0}; });
}

class Deregistered : public testing::Test {
  protected:
    Deregistered() { std::fill(from.data.begin(), from.data.end(), std::byte{7}); }
    SimulatedNetwork network{40, options_of(1, na::reliable_reception)};
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    Memory from{long_bytes, ka::right_rdma_read};
    Memory to{long_bytes, ka::right_rdma_write};
};

TEST_F(Deregistered, TheSendersMemory) {
    receiver.post_receive(to.part(0, long_bytes), to.handle, 1);
    sender.post_send(from.part(0, long_bytes), from.handle, std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(from.handle);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.halted(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_protection);
    disconnect(network, 0);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.peer_closed(); }));
    EXPECT_FALSE(receiver.completed(receiver.queues.receive)) << "half a message was delivered";
    EXPECT_EQ(to.data.back(), std::byte{0});
}

/// All of them go alone: short ones, those of a datagram and those of a long packet.
TEST_F(Deregistered, TheMemoryOfAMessageThatWaits) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1'000}, std::size_t{4'096}}) {
        SimulatedNetwork one{41, options_of(1, na::reliable_reception)};
        Memory there{long_bytes};
        Memory here{bytes};
        one.run(20 * millisecond, [] { return false; });  // the link is up
        one.side(1).post_receive(there.part(0, bytes), there.handle, 1);
        one.side(0).post_send(here.part(0, bytes), here.handle, std::nullopt, 1);
        SimulatedNetwork::deregister_memory(here.handle);
        one.poll(0);
        ASSERT_TRUE(one.run(1'000 * millisecond, [&] { return one.side(0).session.halted(); }));
        EXPECT_EQ(error_of(one.side(0).completed(one.side(0).queues.send)), na::status_protection);
    }
}

TEST_F(Deregistered, TheReceiversMemory) {
    receiver.post_receive(to.part(0, long_bytes), to.handle, 1);
    sender.post_send(from.part(0, long_bytes), from.handle, std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(to.handle);
    const std::vector<std::byte> before = to.data;
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.halted(); }));
    EXPECT_EQ(to.data, before) << "memory was written after it was deregistered";
    const auto entry = receiver.completed(receiver.queues.receive);
    EXPECT_EQ(error_of(entry), na::status_protection);
    EXPECT_EQ(entry->length, 0U);
    disconnect(network, 1);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_remote_descriptor);
}

TEST_F(Deregistered, TheTargetOfAWrite) {
    sender.post_write(from.part(0, long_bytes), from.handle, to.data.data(), to.handle,
                      std::nullopt, 1);
    network.poll(0);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(to.handle);
    const std::vector<std::byte> before = to.data;
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.halted(); }));
    EXPECT_EQ(to.data, before);
    EXPECT_TRUE(has_event(receiver, EndpointEvent::RdmaWriteRefused));
    disconnect(network, 1);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.peer_closed(); }));
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_rdma_protection);
}

TEST_F(Deregistered, TheSourceOfARead) {
    receiver.post_read(to.part(0, long_bytes), to.handle, from.data.data(), from.handle, 1);
    network.poll(1);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(from.handle);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return sender.session.halted(); }));
    EXPECT_TRUE(has_event(sender, EndpointEvent::RdmaReadRefused));
    disconnect(network, 0);
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.peer_closed(); }));
    EXPECT_EQ(error_of(receiver.completed(receiver.queues.send)), na::status_rdma_protection);
}

TEST_F(Deregistered, ThePlaceOfARead) {
    receiver.post_read(to.part(0, long_bytes), to.handle, from.data.data(), from.handle, 1);
    network.poll(1);
    ASSERT_TRUE(run_into_the_middle(network, to));
    SimulatedNetwork::deregister_memory(to.handle);
    const std::vector<std::byte> before = to.data;
    ASSERT_TRUE(network.run(1'000 * millisecond, [&] { return receiver.session.halted(); }));
    EXPECT_EQ(to.data, before);
    EXPECT_EQ(error_of(receiver.completed(receiver.queues.send)), na::status_protection);
}

/// The second segment can not be sent any more after the first has been put into the packet.
TEST(DeregisteredSegment, SpoilsItsMessageOnly) {
    SimulatedNetwork network(41, options_of(1, na::unreliable));
    Side& sender = network.side(0);
    Side& receiver = network.side(1);
    constexpr std::size_t bytes = 250;
    constexpr std::uint64_t messages = 1000;
    Memory from(2'000);
    Memory gone(2'000);
    Memory to((messages + 1) * bytes * 2);
    fill_pattern(from.data, 5);
    const auto address = [](Memory& memory) {
        return reinterpret_cast<std::uint64_t>(memory.data.data());
    };
    post_segments(sender.queues.send, na::Operation::Send,
                  {{address(from), 900, from.handle}, {address(gone), 400, gone.handle}});
    for (std::uint64_t i = 0; i < messages; ++i)
        sender.post_send(from.part(0, bytes), from.handle, static_cast<std::uint32_t>(i), i + 1);
    for (std::uint64_t i = 0; i <= messages; ++i)
        receiver.post_receive(to.part(i * bytes, bytes), to.handle, i);
    SimulatedNetwork::deregister_memory(gone.handle);
    network.faults(0).jitter = 0;
    network.poll(0);
    network.run(200 * millisecond, [] { return false; });
    EXPECT_EQ(error_of(sender.completed(sender.queues.send)), na::status_protection);
    for (std::uint64_t i = 0; i < messages; ++i)
        ASSERT_EQ(error_of(sender.completed(sender.queues.send)), 0U) << i;
    // Whatever became of the spoilt one, the last of those behind it comes whole.
    std::optional<na::WorkEntry> last;
    while (const auto entry = receiver.completed(receiver.queues.receive))
        last = entry;
    ASSERT_TRUE(last);
    EXPECT_EQ(last->immediate, messages - 1);
    EXPECT_EQ(matching_bytes(to.part(last->cookie * bytes, bytes), 5), bytes);
}

}  // namespace
}  // namespace via::test
