// SPDX-License-Identifier: BSD-3-Clause
// VipPostSend and VipPostRecv: how much may be posted, and what a malformed descriptor does.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "vipl/harness.hpp"
#include "vipl/status_bits.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t format_error = VIP_STATUS_FORMAT_ERROR;

TEST(Post, UpToTheMaximumOfDescriptorsAndNoMore) {
    Nic nic;
    const auto maximum = static_cast<std::size_t>(nic.attributes().MaxDescriptorsPerQueue);
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.bytes = 64 * (2 * maximum + 16), .tag = tag});
    Vi vi(nic, {.tag = tag});
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.descriptor(), arena.handle())) << i;
    }
    EXPECT_EQ(nic.errors().count(), 0U);
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipPostRecv(vi, arena.descriptor(), arena.handle()));
    EXPECT_TRUE(nic.errors().await(VIP_ERROR_VI_OVERRUN, vi));
    // The send queue has its own count; flushed descriptors stay on it until they are taken.
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipPostSend(vi, arena.descriptor(), arena.handle())) << i;
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipPostSend(vi, arena.descriptor(), arena.handle()));
    EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &head));
    EXPECT_VIP(VIP_SUCCESS, VipPostSend(vi, arena.descriptor(), arena.handle()));
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi));
    EXPECT_EQ(vi.drain_recv().size(), maximum);
    EXPECT_EQ(vi.drain_send().size(), maximum);
}

TEST(Post, OverrunLeavesAConnectionWorking) {
    Pair pair({.level = unreliable, .arena_bytes = 8U << 20});
    const auto maximum =
        static_cast<std::size_t>(pair.server.nic.attributes().MaxDescriptorsPerQueue);
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.descriptor()));
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, pair.server.post_recv(pair.server.arena.descriptor()));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_VI_OVERRUN, pair.server.vi));
    EXPECT_TRUE(pair.both_connected());
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.descriptor()));
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
}

TEST(Post, ManyOutstandingSendsAreAllDelivered) {
    Pair pair({.arena_bytes = 16U << 20});
    const auto maximum =
        static_cast<std::size_t>(pair.server.nic.attributes().MaxDescriptorsPerQueue);
    const std::size_t count = std::min<std::size_t>(maximum, 4096);
    std::byte* source = pair.client.arena.take(count * 4);
    std::byte* target = pair.server.arena.take(count * 4);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.server.post_recv(pair.server.arena.message(target + 4 * i, 4)));
    }
    fill_pattern(source, count * 4, 21);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(source + 4 * i, 4)));
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
        ASSERT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    }
    EXPECT_TRUE(has_pattern(target, count * 4, 21));
}

TEST(Post, RefusesNullAndMisalignedDescriptors) {
    Pair pair;
    VIP_DESCRIPTOR* good = pair.client.arena.descriptor(10);
    auto* bytes = reinterpret_cast<std::byte*>(good);
    const VIP_MEM_HANDLE handle = pair.client.arena.handle();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostSend(pair.client.vi, nullptr, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(pair.client.vi, nullptr, handle));
    for (const std::size_t offset : {1U, 4U, 8U, 16U, 32U, 63U}) {
        auto* crooked = reinterpret_cast<VIP_DESCRIPTOR*>(bytes + offset);
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostSend(pair.client.vi, crooked, handle)) << offset;
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(pair.client.vi, crooked, handle)) << offset;
    }
    EXPECT_TRUE(pair.client.vi.send_queue_empty());
    EXPECT_TRUE(pair.client.vi.recv_queue_empty());
}

TEST(Post, RefusesBadViHandles) {
    Pair pair;
    VIP_DESCRIPTOR* good = pair.client.arena.descriptor();
    const VIP_MEM_HANDLE handle = pair.client.arena.handle();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostSend(nullptr, good, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(nullptr, good, handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipPostSend(static_cast<VIP_NIC_HANDLE>(pair.client.nic), good, handle));
}

class BadDescriptorMemory : public EachLevel {};

TEST_P(BadDescriptorMemory, IsRefusedAndReported) {
    constexpr std::size_t page = 4096;
    const auto unmap = [](void* address) { ::munmap(address, page); };
    const std::unique_ptr<void, decltype(unmap)> unreadable(
        ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), unmap);
    ASSERT_NE(unreadable.get(), MAP_FAILED);
    enum class Fault { UnknownHandle, StaleHandle, OtherRegion, OtherTag, RunsOverTheEnd, Nowhere };
    for (const Fault fault : {Fault::UnknownHandle, Fault::StaleHandle, Fault::OtherRegion,
                              Fault::OtherTag, Fault::RunsOverTheEnd, Fault::Nowhere}) {
        for (const bool receive : {false, true}) {
            SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault)
                                            << (receive ? ", receive" : ", send"));
            Pair pair(level());
            Nic& nic = pair.client.nic;
            alignas(4096) static std::byte memory[4096];
            std::memset(memory, 0, sizeof memory);
            auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
            VIP_MEM_ATTRIBUTES attributes{pair.client.tag, VIP_FALSE, VIP_FALSE};
            VIP_MEM_HANDLE handle = 0;
            switch (fault) {
                case Fault::UnknownHandle:
                    handle = 0x12345678;
                    break;
                case Fault::StaleHandle:
                    ASSERT_VIP(VIP_SUCCESS,
                               VipRegisterMem(nic, memory, sizeof memory, &attributes, &handle));
                    ASSERT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, memory, handle));
                    break;
                case Fault::OtherRegion:
                    handle = pair.client.arena.handle();
                    break;
                case Fault::OtherTag:
                    attributes.Ptag = make_tag(nic);
                    ASSERT_VIP(VIP_SUCCESS,
                               VipRegisterMem(nic, memory, sizeof memory, &attributes, &handle));
                    break;
                case Fault::RunsOverTheEnd: {
                    // Five segments begin inside the region and end outside.
                    ASSERT_VIP(VIP_SUCCESS, VipRegisterMem(nic, memory, 100, &attributes, &handle));
                    const std::vector<Segment> five(
                        5, pair.client.arena.segment(pair.client.arena.base(), 8));
                    fill(descriptor, five);
                    break;
                }
                case Fault::Nowhere:
                    // Nobody may look at it before it is known to be in the region.
                    descriptor = static_cast<VIP_DESCRIPTOR*>(unreadable.get());
                    handle = pair.client.arena.handle();
                    break;
            }
            EXPECT_VIP(VIP_INVALID_PARAMETER,
                       receive ? VipPostRecv(pair.client.vi, descriptor, handle)
                               : VipPostSend(pair.client.vi, descriptor, handle));
            EXPECT_TRUE(nic.errors().await(VIP_ERROR_POST_DESC, pair.client.vi));
            EXPECT_TRUE(pair.client.vi.send_queue_empty());
            EXPECT_TRUE(pair.client.vi.recv_queue_empty());
            if (breaks_on_error()) {
                EXPECT_TRUE(pair.both_break());
            } else {
                expect_traffic(pair);
            }
        }
    }
}

TEST_P(BadDescriptorMemory, OnAnIdleViChangesNoState) {
    Pair pair({.level = level(), .connected = false});
    alignas(64) static std::byte memory[64];
    auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipPostRecv(pair.client.vi, descriptor, 0x12345678));
    EXPECT_TRUE(pair.client.nic.errors().await(VIP_ERROR_POST_DESC, pair.client.vi));
    EXPECT_EQ(pair.client.vi.state(), VIP_STATE_IDLE);
    pair.connect_again();
    expect_traffic(pair);
}

INSTANTIATE_EACH_LEVEL(BadDescriptorMemory);

// ---- Malformed descriptors ------------------------------------------------------------------

class Malformed : public EachLevel {
  protected:
    /// Posts a send that must fail with `bits`, and checks what becomes of the connection.
    static void expect_send_error(Pair& pair, VIP_DESCRIPTOR* send, std::uint32_t bits) {
        std::byte* target = pair.server.arena.take(64);
        std::memset(target, 0x21, 64);
        VIP_DESCRIPTOR* receive = pair.server.arena.message(target, 64);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
        const Completion sent = pair.client.vi.await_send();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, sent.code);
        EXPECT_EQ(sent.descriptor, send);
        EXPECT_EQ(sent.status() & done_bit, done_bit);
        EXPECT_EQ(sent.errors() & bits, bits);
        EXPECT_EQ(sent.errors() & flushed_error, 0U);
        if (breaks_on_error()) {
            EXPECT_TRUE(pair.both_break());
            const Completion flushed = pair.server.vi.await_recv();
            EXPECT_VIP(VIP_DESCRIPTOR_ERROR, flushed.code);
            EXPECT_EQ(flushed.errors() & flushed_error, flushed_error);
        } else {
            // Nothing was sent: the receive still waits, for the next message.
            std::byte* data = pair.client.arena.take(5);
            ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(data, 5)));
            EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
            const Completion received = pair.server.vi.await_recv();
            EXPECT_VIP(VIP_SUCCESS, received.code);
            EXPECT_EQ(received.length(), 5U);
        }
        EXPECT_TRUE(all_bytes_are(target + 5, 59, std::byte{0x21}));
    }
};

TEST_P(Malformed, ReservedOperation) {
    Pair pair(level());
    expect_send_error(
        pair, pair.client.arena.message(pair.client.arena.take(8), 8, VIP_CONTROL_OP_RESERVED),
        format_error);
}

TEST_P(Malformed, ReservedControlBits) {
    Pair pair(level());
    expect_send_error(pair, pair.client.arena.message(pair.client.arena.take(8), 8, 0x8000),
                      format_error);
}

TEST_P(Malformed, TooManySegments) {
    Pair pair(level());
    const auto most = static_cast<std::size_t>(pair.client.nic.attributes().MaxSegmentsPerDesc);
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor(most + 1);
    const std::vector<Segment> segments(most + 1,
                                        pair.client.arena.segment(pair.client.arena.base(), 0));
    fill(send, segments);
    expect_send_error(pair, send, format_error);
}

TEST_P(Malformed, AnAbsurdNumberOfSegments) {
    // The arena is large enough to hold them all: the number alone is wrong.
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    send->CS.SegCount = 0xFFFF;
    expect_send_error(pair, send, format_error);
}

TEST_P(Malformed, RdmaWithoutAnAddressSegment) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    send->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    expect_send_error(pair, send, format_error);
}

TEST_P(Malformed, LengthThatDisagreesWithTheSegments) {
    for (const std::uint32_t length : {0U, 7U, 9U, 0xFFFFFFFFU}) {
        Pair pair(level());
        VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(8), 8);
        send->CS.Length = length;
        expect_send_error(pair, send, length_error);
    }
}

TEST_P(Malformed, SegmentsWhoseSumOverflows) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor(3);
    const Segment huge{pair.client.arena.base(), pair.client.arena.handle(), 0x80000000U};
    const Segment segments[] = {huge, huge, pair.client.arena.segment(pair.client.arena.base(), 8)};
    fill(send, segments);
    EXPECT_EQ(send->CS.Length, 8U) << "the sum has wrapped";
    std::byte* target = pair.server.arena.take(64);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 64)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    const Completion sent = pair.client.vi.await_send();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, sent.code);
    EXPECT_NE(sent.errors() & (length_error | protection_error), 0U);
}

TEST_P(Malformed, LongerThanTheMaximumTransfer) {
    Pair pair({.level = level(), .max_transfer_bytes = 1000});
    std::byte* source = pair.client.arena.take(1001);
    std::byte* target = pair.server.arena.take(1001);
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, 1000)));
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, 1000)));
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    expect_send_error(pair, pair.client.arena.message(source, 1001), length_error);
}

TEST_P(Malformed, ProtectionOfASendSegment) {
    Pair pair(level());
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    const Segment segment{pair.client.arena.take(8), 0x12345678, 8};
    fill(send, {&segment, 1});
    expect_send_error(pair, send, protection_error);
}

TEST_P(Malformed, RdmaOperationOnTheReceiveQueue) {
    for (const unsigned operation : std::initializer_list<unsigned>{
             VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD, VIP_CONTROL_OP_RESERVED}) {
        Pair pair(level());
        VIP_DESCRIPTOR* receive =
            pair.server.arena.message(pair.server.arena.take(64), 64, operation);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS,
                   pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
        const Completion received = pair.server.vi.await_recv();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_NE(received.errors() & format_error, 0U);
        if (breaks_on_error()) {
            EXPECT_TRUE(pair.both_break());
        } else {
            EXPECT_TRUE(pair.both_connected());
        }
    }
}

TEST_P(Malformed, TooManySegmentsOnTheReceiveQueue) {
    Pair pair({.level = level(), .arena_bytes = 4U << 20});
    VIP_DESCRIPTOR* receive = pair.server.arena.descriptor();
    receive->CS.SegCount = 0xFFFF;
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receive));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    const Completion received = pair.server.vi.await_recv();
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, received.code);
    EXPECT_EQ(received.descriptor, receive);
    EXPECT_NE(received.errors() & format_error, 0U);
}

TEST_P(Malformed, TheBadOneFailsAndTheRestIsFlushedInOrder) {
    if (!breaks_on_error()) GTEST_SKIP() << "nothing is flushed where errors do not break";
    Pair pair(level());
    std::vector<VIP_DESCRIPTOR*> receives;
    for (int i = 0; i < 4; ++i) {
        receives.push_back(pair.server.arena.message(pair.server.arena.take(8), 8));
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(receives.back()));
    }
    std::vector<VIP_DESCRIPTOR*> sends;
    for (int i = 0; i < 4; ++i) {
        sends.push_back(pair.client.arena.message(pair.client.arena.take(8), 8));
    }
    sends[1]->CS.Length = 3;
    for (VIP_DESCRIPTOR* send : sends)
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    ASSERT_TRUE(pair.both_break());
    const std::uint32_t expected[] = {0, length_error, flushed_error, flushed_error};
    for (std::size_t i = 0; i < sends.size(); ++i) {
        const Completion sent = pair.client.vi.await_send();
        EXPECT_EQ(sent.descriptor, sends[i]);
        if (i == 0) {
            // It was under way when the next one broke the connection; no more can be said at RD.
            EXPECT_TRUE(sent.errors() == 0 || sent.errors() == flushed_error);
        } else {
            EXPECT_EQ(sent.errors(), expected[i]) << i;
        }
    }
    // What the receiver got is a beginning of what was sent, never a later message.
    bool flushing = false;
    for (std::size_t i = 0; i < receives.size(); ++i) {
        const Completion received = pair.server.vi.await_recv();
        EXPECT_EQ(received.descriptor, receives[i]);
        if (received.code == VIP_SUCCESS) {
            EXPECT_FALSE(flushing);
            EXPECT_EQ(i, 0U);
        } else {
            flushing = true;
            EXPECT_EQ(received.errors(), flushed_error);
        }
    }
}

INSTANTIATE_EACH_LEVEL(Malformed);

}  // namespace
}  // namespace via::test
