// SPDX-License-Identifier: BSD-3-Clause
// What the three reliability levels promise, and what each fault does at each of them: the two
// tables of levels, row by row.
#include <cstring>
#include <utility>
#include <vector>

#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t remote_error = VIP_STATUS_REMOTE_DESC_ERROR;
constexpr std::uint32_t rdma_error = VIP_STATUS_RDMA_PROT_ERROR;
constexpr std::uint32_t transport_error = VIP_STATUS_TRANSPORT_ERROR;

class Reliability : public EachLevel {
  protected:
    /// What the sender of a message that the receiver could not take sees.
    static void expect_sender_of_bad_receive(const Completion& sent) {
        if (reports_reception()) {
            EXPECT_VIP(VIP_DESCRIPTOR_ERROR, sent.code);
            EXPECT_EQ(sent.errors(), remote_error);
        } else if (breaks_on_error()) {
            // "Done" means gone from the buffer; or the break came first.
            EXPECT_TRUE(sent.code == VIP_SUCCESS ||
                        (sent.errors() & (flushed_error | transport_error)) != 0)
                << std::hex << sent.status();
        } else {
            EXPECT_VIP(VIP_SUCCESS, sent.code);
        }
    }
    static void expect_state_after_error(Pair& pair) {
        if (breaks_on_error()) {
            EXPECT_TRUE(pair.both_break());
        } else {
            EXPECT_TRUE(pair.both_connected());
            expect_traffic(pair);
            EXPECT_EQ(pair.client.nic.errors().count(VIP_ERROR_CONN_LOST), 0U);
            EXPECT_EQ(pair.server.nic.errors().count(VIP_ERROR_CONN_LOST), 0U);
        }
    }
};

// ---- Promises -------------------------------------------------------------------------------

TEST_P(Reliability, MessagesAreDeliveredInOrderAndOnce) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    constexpr std::uint32_t count = 300;
    std::byte* targets = pair.server.arena.take(count * 64);
    std::byte* sources = pair.client.arena.take(count * 64);
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.server.post_recv(pair.server.arena.message(targets + i * 64, 64)));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        fill_pattern(sources + i * 64, 64, i);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(
                                    pair.client.arena.immediate_message(sources + i * 64, 64, i)));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        const Completion received = pair.server.vi.await_recv();
        ASSERT_VIP(VIP_SUCCESS, received.code);
        ASSERT_EQ(received.descriptor->CS.ImmediateData, i);
        ASSERT_TRUE(has_pattern(targets + i * 64, 64, i));
    }
}

TEST_P(Reliability, ACompletedSendHasLeftItsBuffer) {
    Pair pair(level());
    for (const std::size_t size : {30U, 3000U, 50000U}) {
        std::byte* source = pair.client.arena.take(size);
        std::byte* target = pair.server.arena.take(size);
        fill_pattern(source, size, 5);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, size)));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, size)));
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        std::memset(source, 0, size);
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
        EXPECT_TRUE(has_pattern(target, size, 5));
    }
}

TEST_P(Reliability, AtReliableReceptionACompletedSendIsInTheReceiversMemory) {
    if (!reports_reception()) GTEST_SKIP() << "promised at reliable reception only";
    Pair pair(level());
    for (const std::size_t size : {1U, 30U, 3000U, 50000U}) {
        std::byte* source = pair.client.arena.take(size);
        std::byte* target = pair.server.arena.take(size);
        fill_pattern(source, size, 6);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, size)));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, size)));
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        // Before any call of the receiver.
        EXPECT_TRUE(shows_pattern(target, size, 6));
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    }
}

TEST_P(Reliability, AtReliableReceptionACompletedRdmaWriteIsInTheTargetsMemory) {
    if (!reports_reception()) GTEST_SKIP() << "promised at reliable reception only";
    Pair pair(level());
    for (const std::size_t size : {1U, 30U, 3000U, 50000U}) {
        std::byte* source = pair.client.arena.take(size);
        std::byte* target = pair.server.arena.take(size);
        fill_pattern(source, size, 7);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                    source, size, {target, pair.server.arena.handle()})));
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        EXPECT_TRUE(shows_pattern(target, size, 7));
    }
}

TEST_P(Reliability, AtReliableReceptionNothingAfterTheFailedMessageIsDelivered) {
    if (!reports_reception()) GTEST_SKIP() << "promised at reliable reception only";
    Pair pair(level());
    std::byte* targets = pair.server.arena.take(3 * 64);
    std::memset(targets, 0, 3 * 64);
    // The second receive is too short.
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(targets, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(targets + 64, 8)));
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(targets + 128, 64)));
    std::byte* source = pair.client.arena.take(64);
    fill_pattern(source, 64, 8);
    for (int i = 0; i < 3; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 64)));
    }
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_EQ(pair.client.vi.await_send().errors(), remote_error);
    EXPECT_EQ(pair.client.vi.await_send().errors(), flushed_error);
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    EXPECT_NE(pair.server.vi.await_recv().errors() & length_error, 0U);
    EXPECT_EQ(pair.server.vi.await_recv().errors(), flushed_error);
    EXPECT_TRUE(has_pattern(targets, 64, 8));
    EXPECT_TRUE(all_bytes_are(targets + 128, 64, std::byte{0}));
}

// ---- Faults ---------------------------------------------------------------------------------

TEST_P(Reliability, MessageWithoutAReceivePosted) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(64), 64);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    const Completion sent = pair.client.vi.await_send();
    EXPECT_EQ(sent.descriptor, send);
    expect_sender_of_bad_receive(sent);
    EXPECT_TRUE(pair.server.raises(VIP_ERROR_RECVQ_EMPTY));
    expect_state_after_error(pair);
    if (breaks_on_error()) {
        EXPECT_TRUE(pair.client.raises(VIP_ERROR_CONN_LOST));
    }
}

TEST_P(Reliability, SendsAfterAMessageWithoutAReceiveAreFlushed) {
    if (!breaks_on_error()) GTEST_SKIP() << "nothing is flushed where errors do not break";
    Pair pair(level());
    for (int i = 0; i < 5; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    }
    ASSERT_TRUE(pair.both_break());
    const auto sends = pair.client.vi.drain_send();
    ASSERT_EQ(sends.size(), 5U);
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    EXPECT_EQ(pair.client.vi.await_send().errors(), flushed_error);
}

TEST_P(Reliability, MessageLongerThanTheReceiveBuffers) {
    for (const auto& [message, buffer] : {std::pair{100U, 50U}, {9000U, 20U}, {60000U, 30000U}}) {
        SCOPED_TRACE(message);
        Pair pair(level());
        std::byte* source = pair.client.arena.take(message);
        std::byte* target = pair.server.arena.take(message);
        fill_pattern(source, message, 1);
        std::memset(target, 0x66, message);
        VIP_DESCRIPTOR* receive = pair.server.arena.message(target, buffer);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, message)));
        expect_sender_of_bad_receive(pair.client.vi.await_send());
        const Completion received = pair.server.vi.await_recv();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_EQ(received.errors() & length_error, length_error);
        EXPECT_EQ(received.errors() & ~(length_error | VIP_STATUS_PARTIAL_ERROR), 0U);
        EXPECT_TRUE(all_bytes_are(target + buffer, message - buffer, std::byte{0x66}));
        expect_state_after_error(pair);
    }
}

TEST_P(Reliability, ReceiveSegmentThatFailsProtection) {
    for (const std::size_t size : {40U, 5000U, 50000U}) {
        SCOPED_TRACE(size);
        Pair pair(level());
        std::byte* target = pair.server.arena.take(size);
        std::memset(target, 0x67, size);
        VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
        const Segment segment{target, 0x12345678, static_cast<std::uint32_t>(size)};
        fill(receive, {&segment, 1});
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        std::byte* source = pair.client.arena.take(size);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, size)));
        expect_sender_of_bad_receive(pair.client.vi.await_send());
        const Completion received = pair.server.vi.await_recv();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_EQ(received.errors() & protection_error, protection_error);
        EXPECT_TRUE(all_bytes_are(target, size, std::byte{0x67}));
        expect_state_after_error(pair);
    }
}

TEST_P(Reliability, ASecondReceiveSegmentThatFailsProtection) {
    Pair pair(level());
    std::byte* target = pair.server.arena.take(128);
    std::memset(target, 0x68, 128);
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    const Segment segments[] = {pair.server.arena.segment(target, 64), {target + 64, 0, 64}};
    fill(receive, segments);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    std::byte* source = pair.client.arena.take(128);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 128)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_EQ(received.errors() & protection_error, protection_error);
    EXPECT_TRUE(all_bytes_are(target + 64, 64, std::byte{0x68}));
    expect_sender_of_bad_receive(pair.client.vi.await_send());
    expect_state_after_error(pair);
}

/// The ways in which the target of an RDMA can be wrong.
enum class Wrong { ViRights, RegionRights, Tag, RangeEnd, RangeStart, StaleHandle, NoHandle };
constexpr Wrong all_wrongs[] = {Wrong::ViRights, Wrong::RegionRights, Wrong::Tag,
                                Wrong::RangeEnd, Wrong::RangeStart,   Wrong::StaleHandle,
                                Wrong::NoHandle};

/// A target region of the server with the given fault; `remote` is what the client names.
struct WrongTarget {
    WrongTarget(Pair& pair, Wrong wrong, std::size_t size) {
        Nic& nic = pair.server.nic;
        memory.resize(4096 + 2 * size);
        std::memset(memory.data(), 0x69, memory.size());
        std::byte* first = memory.data() + size;
        VIP_MEM_ATTRIBUTES attributes{
            wrong == Wrong::Tag ? make_tag(nic) : pair.server.tag,
            wrong == Wrong::RegionRights ? VIP_FALSE : VIP_TRUE,
            wrong == Wrong::RegionRights || nic.attributes().RDMAReadSupport == 0 ? VIP_FALSE
                                                                                  : VIP_TRUE};
        EXPECT_VIP(VIP_SUCCESS, VipRegisterMem(nic, first, size, &attributes, &remote.handle));
        remote.data = first;
        if (wrong == Wrong::RangeEnd) remote.data = first + 1;
        if (wrong == Wrong::RangeStart) remote.data = first - 1;
        if (wrong == Wrong::StaleHandle) {
            EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, first, remote.handle));
        }
        if (wrong == Wrong::NoHandle) remote.handle = 0;
    }
    std::vector<std::byte> memory;
    Remote remote;
    [[nodiscard]] testing::AssertionResult untouched() const {
        return all_bytes_are(memory.data(), memory.size(), std::byte{0x69});
    }
};

PairOptions options_for(Wrong wrong, VIP_RELIABILITY_LEVEL level) {
    PairOptions options{.level = level};
    options.rdma_write = wrong != Wrong::ViRights;
    options.rdma_read = wrong != Wrong::ViRights;
    return options;
}

TEST_P(Reliability, RdmaWriteThatTheTargetMayNotTake) {
    for (const Wrong wrong : all_wrongs) {
        for (const std::size_t size : {16U, 2000U, 50000U}) {
            SCOPED_TRACE(testing::Message() << "wrong " << static_cast<int>(wrong) << ", " << size);
            Pair pair(options_for(wrong, level()));
            const WrongTarget target(pair, wrong, size);
            std::byte* source = pair.client.arena.take(size);
            VIP_DESCRIPTOR* write = pair.client.arena.rdma_write(source, size, target.remote);
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
            const Completion written = pair.client.vi.await_send();
            EXPECT_EQ(written.descriptor, write);
            if (reports_reception()) {
                EXPECT_VIP(VIP_DESCRIPTOR_ERROR, written.code);
                EXPECT_EQ(written.errors(), rdma_error);
            } else {
                EXPECT_VIP(VIP_SUCCESS, written.code);
            }
            EXPECT_TRUE(pair.server.raises(VIP_ERROR_RDMAW_PROT));
            expect_state_after_error(pair);
            EXPECT_TRUE(target.untouched());
        }
    }
}

TEST_P(Reliability, RdmaWriteWithImmediateDataThatTheTargetMayNotTake) {
    for (const Wrong wrong : all_wrongs) {
        SCOPED_TRACE(static_cast<int>(wrong));
        Pair pair(options_for(wrong, level()));
        const WrongTarget target(pair, wrong, 200);
        VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        VIP_DESCRIPTOR* write = pair.client.arena.rdma_write(pair.client.arena.take(200), 200,
                                                             target.remote, VIP_CONTROL_IMMEDIATE);
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(write));
        const Completion written = pair.client.vi.await_send();
        if (reports_reception()) {
            EXPECT_EQ(written.errors(), rdma_error);
        } else {
            EXPECT_VIP(VIP_SUCCESS, written.code);
        }
        // The receive that it consumes carries the news, instead of the callback.
        const Completion received = pair.server.vi.await_recv();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_EQ(received.operation(), static_cast<unsigned>(VIP_STATUS_OP_REMOTE_RDMA_WRITE));
        EXPECT_NE(received.errors() & (rdma_error | protection_error), 0U);
        expect_state_after_error(pair);
        EXPECT_EQ(pair.server.nic.errors().count(VIP_ERROR_RDMAW_PROT), 0U);
        EXPECT_TRUE(target.untouched());
    }
}

TEST_P(Reliability, RdmaReadThatTheTargetRefuses) {
    {
        const Nic nic;
        if (!nic.reads_at(level())) GTEST_SKIP() << "no RDMA read at " << level_name(level());
    }
    for (const Wrong wrong : all_wrongs) {
        for (const std::size_t size : {16U, 50000U}) {
            SCOPED_TRACE(testing::Message() << "wrong " << static_cast<int>(wrong) << ", " << size);
            Pair pair(options_for(wrong, level()));
            const WrongTarget target(pair, wrong, size);
            std::byte* into = pair.client.arena.take(size);
            std::memset(into, 0x13, size);
            VIP_DESCRIPTOR* read = pair.client.arena.rdma_read(into, size, target.remote);
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(read));
            const Completion done = pair.client.vi.await_send();
            EXPECT_VIP(VIP_DESCRIPTOR_ERROR, done.code);
            EXPECT_EQ(done.descriptor, read);
            EXPECT_EQ(done.errors(), rdma_error);
            EXPECT_EQ(done.operation(), static_cast<unsigned>(VIP_STATUS_OP_RDMA_READ));
            EXPECT_TRUE(pair.server.raises(VIP_ERROR_RDMAR_PROT));
            EXPECT_TRUE(pair.both_break());
            EXPECT_TRUE(all_bytes_are(into, size, std::byte{0x13}));
        }
    }
}

TEST_P(Reliability, RemoteDisconnect) {
    Pair pair(level());
    VIP_DESCRIPTOR* receive = pair.server.arena.message(pair.server.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(pair.server.raises(VIP_ERROR_CONN_LOST));
    EXPECT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
    const Completion flushed = pair.server.vi.await_recv();
    EXPECT_EQ(flushed.descriptor, receive);
    EXPECT_EQ(flushed.errors(), flushed_error);
}

PEER(die_at_this_level) {
    ClientEnd client({.level = link.get<VIP_RELIABILITY_LEVEL>()});
    client.request(link);
    link.meet();
    static_cast<void>(link.get<std::uint8_t>());  // killed here
}

TEST_P(Reliability, DeathOfThePeerProcess) {
    NEEDS_TWO_PROCESSES();
    PeerProcess peer("die_at_this_level");
    peer.link.put(level());
    ServerEnd server({.level = level()});
    server.accept(peer.link);
    peer.link.meet();
    peer.kill();
    EXPECT_EQ(peer.wait(), -9);
    EXPECT_TRUE(server.nic.errors().await(VIP_ERROR_CONN_LOST, server.end.vi));
    EXPECT_TRUE(server.end.vi.becomes(VIP_STATE_ERROR));
    VIP_DESCRIPTOR* send = server.end.arena.message(server.end.arena.take(8), 8);
    ASSERT_VIP(VIP_SUCCESS, server.end.post_send(send));
    EXPECT_EQ(server.end.vi.await_send().errors(), flushed_error);
}

TEST_P(Reliability, AfterAnErrorTheViCanBeConnectedAgain) {
    if (!breaks_on_error()) GTEST_SKIP() << "nothing breaks";
    Pair pair(level());
    for (int i = 0; i < 3; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
        ASSERT_TRUE(pair.both_break());
        ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
        ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
        pair.client.vi.drain_send();
        pair.connect_again();
        expect_traffic(pair);
    }
}

INSTANTIATE_EACH_LEVEL(Reliability);

}  // namespace
}  // namespace via::test
