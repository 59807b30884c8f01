// SPDX-License-Identifier: BSD-3-Clause
// Descriptors, from post to Done, as the user agent treats them for all devices.
#include <algorithm>
#include <thread>

#include "na/seeded.hpp"
#include "ua/scripted_vi.hpp"

using namespace via;
using namespace via::test;
using na::Operation;
using ua::DoneOutcome;
using ua::PostOutcome;
using ua::Queue;
using ua::ViState;

namespace {

using Codes = std::vector<VIP_ERROR_CODE>;

class ViCompletion : public ScriptedVi, public testing::WithParamInterface<std::uint32_t> {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        open(GetParam());
        connect();
    }
    [[nodiscard]] static bool reliable() { return GetParam() != na::unreliable; }
    /// After something that broke the connection where it is reliable.
    void renew() {
        ASSERT_TRUE(vi->disconnect(handle));
        while (done(Queue::Send).descriptor != nullptr) {
        }
        while (done(Queue::Receive).descriptor != nullptr) {
        }
        connect();
    }
    /// After it the caches know all about the memory.
    void send_one_the_long_way() {
        ASSERT_EQ(send(message(0)), PostOutcome::Success);
        endpoint->complete_send(0, 8);
        ASSERT_EQ(send_done().outcome, DoneOutcome::Success);
    }
    [[nodiscard]] na::WorkQueue& send_queue() { return endpoint->queues().send; }
};

// ---- What the device sees --------------------------------------------------------------------

TEST_P(ViCompletion, TranslatesAMessageIntoAChain) {
    ASSERT_EQ(send(message(0, {8, 0, 100, 1}, VIP_CONTROL_IMMEDIATE, 0xABCD)),
              PostOutcome::Success);
    EXPECT_EQ(endpoint->rings(), 1);
    const na::ChainHead head = na::decode_head(send_queue().pds.at(0));
    EXPECT_EQ(head.operation, Operation::Send);
    EXPECT_EQ(head.flags, na::pd_immediate);
    EXPECT_EQ(head.segments, 3) << "empty segments need no PD";
    EXPECT_EQ(head.length, 109U);
    EXPECT_EQ(head.immediate, 0xABCDU);
    ASSERT_EQ(send_queue().pds.size(), 4U);
    const std::size_t offsets[] = {0, 8, 108};
    const std::uint32_t lengths[] = {8, 100, 1};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const na::PhysicalDescriptor& pd = send_queue().pds.at(1 + i);
        EXPECT_EQ(pd.address, reinterpret_cast<std::uint64_t>(data(offsets[i])));
        EXPECT_EQ(pd.length, lengths[i]);
        EXPECT_EQ(pd.handle, memory_handle);
    }
}

TEST_P(ViCompletion, GivesAPlainSendPastTheRingToADeviceThatTakesIt) {
    send_one_the_long_way();
    endpoint->set_takes_sends(3);
    const int rings = endpoint->rings();
    for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(send(message(i, {static_cast<std::uint32_t>(8 + i)},
                               i == 1 ? VIP_CONTROL_IMMEDIATE : VIP_UINT16{0}, 0xABCD)),
                  PostOutcome::Success);
    EXPECT_EQ(endpoint->rings(), rings);
    EXPECT_TRUE(send_queue().pds.empty());
    ASSERT_EQ(endpoint->taken_sends().size(), 3U);
    for (std::uint64_t i = 0; i < 3; ++i) {
        const auto& taken = endpoint->taken_sends()[i];
        EXPECT_EQ(taken.entry, 1 + i);
        EXPECT_EQ(taken.segment.address, reinterpret_cast<std::uint64_t>(data()));
        EXPECT_EQ(taken.segment.length, 8U + i);
        EXPECT_EQ(taken.segment.handle, memory_handle);
        EXPECT_EQ(taken.immediate.has_value(), i == 1);
    }
    EXPECT_EQ(endpoint->taken_sends()[1].immediate.value_or(0), 0xABCDU);
    EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
    endpoint->arrive([](na::QueuePair& queues) {
        for (std::uint32_t i = 0; i < 3; ++i)
            queues.send.complete(1 + i, 0, 8 + i);
    });
    for (std::size_t i = 0; i < 3; ++i) {
        const Taken sent = send_done();
        EXPECT_EQ(sent.outcome, DoneOutcome::Success);
        EXPECT_EQ(sent.descriptor, &memory->descriptors[i].head);
        EXPECT_EQ(sent.descriptor->CS.Length, 8U + i);
    }
}

TEST_P(ViCompletion, ASendThatTheDeviceDoesNotTakeWaitsInTheRingAndOthersBehindIt) {
    send_one_the_long_way();
    endpoint->set_takes_sends(1);
    const int rings = endpoint->rings();
    for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(send(message(i)), PostOutcome::Success);
    ASSERT_EQ(endpoint->taken_sends().size(), 1U);
    EXPECT_EQ(endpoint->rings(), rings + 2);
    EXPECT_EQ(send_queue().pds.size(), 4U);
    endpoint->set_takes_sends(1);
    ASSERT_EQ(send(message(3)), PostOutcome::Success);
    ASSERT_EQ(endpoint->taken_sends().size(), 1U) << "two wait before it";
    endpoint->complete_send(0, 8);
    endpoint->complete_send(0, 8);
    endpoint->complete_send(0, 8);
    endpoint->arrive([](na::QueuePair& queues) { queues.send.complete(1, 0, 8); });
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(send_done().descriptor, &memory->descriptors[i].head);
    // What is more than a plain send never goes past it.
    ASSERT_EQ(send(message(0, {8}, VIP_CONTROL_QFENCE)), PostOutcome::Success);
    ASSERT_EQ(endpoint->taken_sends().size(), 1U);
    endpoint->complete_send(0, 8);
    EXPECT_EQ(send_done().outcome, DoneOutcome::Success);
    ASSERT_EQ(send(message(1)), PostOutcome::Success);
    ASSERT_EQ(endpoint->taken_sends().size(), 2U);
    EXPECT_EQ(endpoint->taken_sends()[1].entry, 6U);
}

TEST_P(ViCompletion, TranslatesRdmaIntoAChainWithTheRemoteAddress) {
    ASSERT_EQ(send(rdma(0, VIP_CONTROL_OP_RDMAWRITE, 0x123456789ABCDEF0, 0x77, {5, 6},
                        VIP_CONTROL_QFENCE)),
              PostOutcome::Success);
    const na::ChainHead head = na::decode_head(send_queue().pds.at(0));
    EXPECT_EQ(head.operation, Operation::RdmaWrite);
    EXPECT_EQ(head.flags, na::pd_fence);
    EXPECT_EQ(head.segments, 2);
    EXPECT_EQ(head.length, 11U);
    EXPECT_EQ(send_queue().pds.at(1).address, 0x123456789ABCDEF0U);
    EXPECT_EQ(send_queue().pds.at(1).handle, 0x77U);
    EXPECT_EQ(send_queue().pds.at(2).length, 5U);
    EXPECT_EQ(send_queue().pds.at(3).length, 6U);
}

TEST_P(ViCompletion, KnowsNoImmediateDataOnRdmaReads) {
    ASSERT_EQ(send(rdma(0, VIP_CONTROL_OP_RDMAREAD, 0x1000, 0x77, {5}, VIP_CONTROL_IMMEDIATE)),
              PostOutcome::Success);
    if (!reliable()) {
        EXPECT_EQ(send_done().errors(), VIP_STATUS_FORMAT_ERROR) << "not on this level";
        return;
    }
    const na::ChainHead head = na::decode_head(send_queue().pds.at(0));
    EXPECT_EQ(head.operation, Operation::RdmaRead);
    EXPECT_EQ(head.flags, 0);
}

TEST_P(ViCompletion, TranslatesAReceiveAndIgnoresItsFlags) {
    ASSERT_EQ(receive(message(0, {100, 0, 200}, VIP_CONTROL_IMMEDIATE | VIP_CONTROL_QFENCE)),
              PostOutcome::Success);
    na::WorkQueue& queue = endpoint->queues().receive;
    const na::ChainHead head = na::decode_head(queue.pds.at(0));
    EXPECT_EQ(head.operation, Operation::Receive);
    EXPECT_EQ(head.flags, 0);
    EXPECT_EQ(head.segments, 2);
    EXPECT_EQ(head.length, 300U);
    EXPECT_EQ(queue.pds.at(2).length, 200U);
}

TEST_P(ViCompletion, MessagesOfNothingAreMessages) {
    ASSERT_EQ(send(message(0, {})), PostOutcome::Success);
    ASSERT_EQ(send(message(1, {0})), PostOutcome::Success);
    ASSERT_EQ(receive(message(2, {})), PostOutcome::Success);
    EXPECT_EQ(na::decode_head(send_queue().pds.at(0)).segments, 0);
    EXPECT_EQ(na::decode_head(send_queue().pds.at(1)).segments, 0);
    EXPECT_EQ(send_queue().pds.size(), 2U);
    endpoint->complete_send(0, 0);
    endpoint->complete_send(0, 0);
    endpoint->complete_receive(0, 0);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(send_done().outcome, DoneOutcome::Success);
    EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
}

// The small ring holds 64 PDs by default.
TEST_P(ViCompletion, PostsFarMoreThanTheDeviceHolds) {
    for (std::size_t i = 0; i < 64; ++i)
        ASSERT_EQ(send(message(i, {1, 2, 3, 4, 5, 6})), PostOutcome::Success);
    EXPECT_EQ(send_queue().pds.size(), 64U * 7);
    EXPECT_GT(send_queue().pds.spilled(), 0U);
    for (std::size_t i = 0; i < 64; ++i)
        endpoint->complete_send(0, 21);
    for (std::size_t i = 0; i < 64; ++i) {
        const Taken taken = send_done();
        ASSERT_EQ(taken.outcome, DoneOutcome::Success);
        ASSERT_EQ(taken.descriptor, &memory->descriptors[i].head);
    }
    EXPECT_GT(send_queue().pds.refills(), 0U);
}

TEST_P(ViCompletion, LinksDescriptorsInTheOrderOfPosting) {
    for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(receive(message(i)), PostOutcome::Success);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(memory->descriptors[i].head.CS.Next.Descriptor, &memory->descriptors[i + 1].head);
        EXPECT_EQ(memory->descriptors[i].head.CS.NextHandle, memory_handle);
    }
}

// ---- Completion ------------------------------------------------------------------------------

TEST_P(ViCompletion, IsInPostOrderWhateverTheDeviceDoes) {
    constexpr std::size_t count = 20;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Random random(seed);
        std::vector<std::uint64_t> order;
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(send(message(i)), PostOutcome::Success);
        endpoint->arrive([&](na::QueuePair& queues) {
            for (std::size_t i = 0; i < count; ++i)
                if (queues.send.has_work()) order.push_back(queues.send.start());
        });
        EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
        ASSERT_EQ(order.size(), count);
        const std::uint64_t first = order[0];
        for (std::size_t i = count; i > 1; --i)
            std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
        std::vector<bool> completed(count);
        std::size_t taken = 0;
        for (const std::uint64_t number : order) {
            endpoint->arrive([=](na::QueuePair& queues) {
                queues.send.complete(number, 0, static_cast<std::uint32_t>(number));
            });
            completed[number - first] = true;
            while (taken < count && completed[taken]) {
                const Taken next = send_done();
                ASSERT_EQ(next.outcome, DoneOutcome::Success);
                ASSERT_EQ(next.descriptor, &memory->descriptors[taken].head);
                ASSERT_EQ(next.descriptor->CS.Length, first + taken);
                ++taken;
            }
            if (taken < count) {
                ASSERT_EQ(send_done().outcome, DoneOutcome::NotDone);
            }
        }
        ASSERT_EQ(taken, count);
        expect_empty(Queue::Send);
    }
}

TEST_P(ViCompletion, WritesStatusLengthAndImmediateData) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    ASSERT_EQ(receive(message(1, {8}, 0, 0x5555)), PostOutcome::Success);
    EXPECT_EQ(memory->descriptors[0].head.CS.Status, 0U) << "cleared by posting";
    endpoint->complete_receive(na::status_immediate, 5, 0x1234);
    endpoint->complete_receive(0, 6, 0x1234);
    ASSERT_EQ(receive_done().outcome, DoneOutcome::Success);
    ASSERT_EQ(receive_done().outcome, DoneOutcome::Success);
    const VIP_CONTROL_SEGMENT& with = memory->descriptors[0].head.CS;
    EXPECT_EQ(with.Status, static_cast<VIP_UINT32>(VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE |
                                                   VIP_STATUS_IMMEDIATE));
    EXPECT_EQ(with.Length, 5U);
    EXPECT_EQ(with.ImmediateData, 0x1234U);
    const VIP_CONTROL_SEGMENT& without = memory->descriptors[1].head.CS;
    EXPECT_EQ(without.Status, static_cast<VIP_UINT32>(VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE));
    EXPECT_EQ(without.ImmediateData, 0x5555U) << "the program's own";
}

TEST_P(ViCompletion, ShowsTheOperationAlsoWhenFlushed) {
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    ASSERT_EQ(send(rdma(1, VIP_CONTROL_OP_RDMAWRITE, 0x1000, 1, {8})), PostOutcome::Success);
    ASSERT_EQ(receive(message(2)), PostOutcome::Success);
    ASSERT_TRUE(vi->disconnect(handle));
    EXPECT_EQ(send_done().descriptor->CS.Status & VIP_STATUS_OP_MASK,
              static_cast<VIP_UINT32>(VIP_STATUS_OP_SEND));
    EXPECT_EQ(send_done().descriptor->CS.Status & VIP_STATUS_OP_MASK,
              static_cast<VIP_UINT32>(VIP_STATUS_OP_RDMA_WRITE));
    EXPECT_EQ(receive_done().descriptor->CS.Status & VIP_STATUS_OP_MASK,
              static_cast<VIP_UINT32>(VIP_STATUS_OP_RECEIVE));
}

TEST_P(ViCompletion, EmptyQueuesSaySo) {
    expect_empty(Queue::Send);
    expect_empty(Queue::Receive);
    VIP_DESCRIPTOR* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(64);
    EXPECT_EQ(vi->wait(handle, Queue::Send, base::Deadline::never(), descriptor),
              DoneOutcome::DescriptorError);
    EXPECT_EQ(descriptor, nullptr);
}

TEST_P(ViCompletion, SendAndReceiveQueuesAreIndependent) {
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    ASSERT_EQ(receive(message(1)), PostOutcome::Success);
    endpoint->complete_receive(0, 8);
    EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
    EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
    EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
}

// ---- Errors of the device, and whether they break the connection -------------------------------

TEST_P(ViCompletion, ErrorsBreakReliableConnectionsOnly) {
    const std::uint32_t bits[] = {na::status_format,           na::status_protection,
                                  na::status_length,           na::status_partial,
                                  na::status_transport,        na::status_rdma_protection,
                                  na::status_remote_descriptor};
    for (const Queue queue : {Queue::Send, Queue::Receive})
        for (const std::uint32_t bit : bits) {
            SCOPED_TRACE((queue == Queue::Send ? "send " : "receive ") + std::to_string(bit));
            for (std::size_t i = 0; i < 3; ++i) {
                ASSERT_EQ(send(message(i)), PostOutcome::Success);
                ASSERT_EQ(receive(message(10 + i)), PostOutcome::Success);
            }
            if (queue == Queue::Send)
                endpoint->complete_send(bit, 3);
            else
                endpoint->complete_receive(bit, 3);
            EXPECT_EQ(state(), reliable() ? ViState::Error : ViState::Connected);
            const Taken first = done(queue);
            EXPECT_EQ(first.outcome, DoneOutcome::DescriptorError);
            EXPECT_EQ(first.errors(), bit) << "the one at fault has its own bits";
            EXPECT_EQ(first.descriptor->CS.Length, 3U);
            const Taken second = done(queue);
            if (reliable()) {
                EXPECT_EQ(second.errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
                EXPECT_FALSE(endpoint->live());
            } else {
                EXPECT_EQ(second.outcome, DoneOutcome::NotDone);
                EXPECT_TRUE(endpoint->live());
            }
            // What the other side found wrong is a loss of the connection, too.
            const bool remote = bit == na::status_transport || bit == na::status_remote_descriptor;
            EXPECT_EQ(error_codes(), reliable() && remote ? Codes{VIP_ERROR_CONN_LOST} : Codes{});
            renew();
        }
}

TEST_P(ViCompletion, CountsWhatEndsInError) {
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    const std::uint64_t before = endpoint->queues().counters->completed_in_error.get();
    endpoint->complete_send(na::status_transport);
    EXPECT_NE(send_done().descriptor, nullptr);
    EXPECT_EQ(endpoint->queues().counters->completed_in_error.get(), before + 1);
}

// ---- Faults at post ----------------------------------------------------------------------------

TEST_P(ViCompletion, FaultsAtPostShowInTheDescriptorAndReachNoDevice) {
    const auto foreign_tag = nic->create_tag();
    ASSERT_TRUE(foreign_tag);
    const auto foreign = nic->register_memory(data(), 100, {foreign_tag.value(), 3});
    ASSERT_TRUE(foreign);
    const std::vector<std::uint32_t> many(ScriptedDevice::max_segments + 1, 1);
    struct Fault {
        const char* what;
        std::uint32_t status;
        std::function<VIP_DESCRIPTOR*()> make;
    };
    const auto changed = [&](auto change) {
        return [this, change] {
            VIP_DESCRIPTOR* descriptor = message(1, {8, 8});
            change(*descriptor);
            return descriptor;
        };
    };
    const Fault faults[] = {
        {"reserved control bits", VIP_STATUS_FORMAT_ERROR, [&] { return message(1, {8}, 0x10); }},
        {"the reserved operation", VIP_STATUS_FORMAT_ERROR,
         [&] { return message(1, {8}, VIP_CONTROL_OP_RESERVED); }},
        {"too many segments", VIP_STATUS_FORMAT_ERROR, [&] { return message(1, many); }},
        {"RDMA without an address", VIP_STATUS_FORMAT_ERROR,
         [&] { return message(1, {}, VIP_CONTROL_OP_RDMAWRITE); }},
        {"a length that is not the sum", VIP_STATUS_LENGTH_ERROR,
         changed([](VIP_DESCRIPTOR& d) { ++d.CS.Length; })},
        {"a length that is less than the sum", VIP_STATUS_LENGTH_ERROR,
         changed([](VIP_DESCRIPTOR& d) { --d.CS.Length; })},
        {"more than the VI's transfer size", VIP_STATUS_LENGTH_ERROR,
         [&] { return message(1, {50001}); }},
        {"no such handle", VIP_STATUS_PROTECTION_ERROR,
         changed([](VIP_DESCRIPTOR& d) { d.DS[1].Local.Handle ^= 0x10000; })},
        {"handle 0", VIP_STATUS_PROTECTION_ERROR,
         changed([](VIP_DESCRIPTOR& d) { d.DS[0].Local.Handle = 0; })},
        {"before the region", VIP_STATUS_PROTECTION_ERROR, changed([this](VIP_DESCRIPTOR& d) {
             d.DS[0].Local.Data.AddressBits = reinterpret_cast<std::uint64_t>(memory.get()) - 1;
         })},
        {"behind the region", VIP_STATUS_PROTECTION_ERROR, changed([this](VIP_DESCRIPTOR& d) {
             d.DS[0].Local.Data.AddressBits = reinterpret_cast<std::uint64_t>(memory.get() + 1) - 7;
         })},
        {"around the end of the address space", VIP_STATUS_PROTECTION_ERROR,
         changed([](VIP_DESCRIPTOR& d) { d.DS[0].Local.Data.AddressBits = ~0ULL - 2; })},
        {"another tag", VIP_STATUS_PROTECTION_ERROR, changed([&](VIP_DESCRIPTOR& d) {
             d.DS[1].Local.Data.AddressBits = reinterpret_cast<std::uint64_t>(data());
             d.DS[1].Local.Handle = foreign.value();
         })},
    };
    for (const Fault& fault : faults) {
        SCOPED_TRACE(fault.what);
        const int rings = endpoint->rings();
        ASSERT_EQ(send(message(0)), PostOutcome::Success);
        ASSERT_EQ(send(fault.make()), PostOutcome::Success);
        ASSERT_EQ(send(message(2)), PostOutcome::Success);
        EXPECT_EQ(endpoint->rings(), rings + (reliable() ? 1 : 2));
        // In order: the one before it first.
        EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
        endpoint->complete_send(0, 8);
        EXPECT_EQ(send_done().errors(), 0U);
        const Taken bad = send_done();
        EXPECT_EQ(bad.outcome, DoneOutcome::DescriptorError);
        EXPECT_EQ(bad.errors(), fault.status);
        EXPECT_EQ(bad.descriptor->CS.Length, 0U);
        EXPECT_EQ(state(), reliable() ? ViState::Error : ViState::Connected);
        if (reliable()) {
            EXPECT_EQ(send_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
        } else {
            endpoint->complete_send(0, 8);
            EXPECT_EQ(send_done().errors(), 0U);
        }
        EXPECT_TRUE(error_codes().empty());
        renew();
    }
}

TEST_P(ViCompletion, EmptySegmentsMayHaveAnyHandle) {
    VIP_DESCRIPTOR* descriptor = message(0, {8, 0});
    descriptor->DS[1].Local.Handle = 0xDEADBEEF;
    descriptor->DS[1].Local.Data.AddressBits = 0;
    ASSERT_EQ(send(descriptor), PostOutcome::Success);
    EXPECT_EQ(send_queue().pds.size(), 2U);
}

TEST_P(ViCompletion, ReceivesAreCheckedForFormToo) {
    const std::vector<std::uint32_t> many(ScriptedDevice::max_segments + 1, 1);
    VIP_DESCRIPTOR* bad[] = {message(0, {8}, 0x20), message(1, {8}, VIP_CONTROL_OP_RDMAWRITE),
                             message(2, many), message(3, {0xFFFFFFFF, 0xFFFFFFFF})};
    const std::uint32_t wanted[] = {VIP_STATUS_FORMAT_ERROR, VIP_STATUS_FORMAT_ERROR,
                                    VIP_STATUS_FORMAT_ERROR, VIP_STATUS_LENGTH_ERROR};
    for (std::size_t i = 0; i < 4; ++i) {
        ASSERT_EQ(receive(bad[i]), PostOutcome::Success);
        EXPECT_EQ(receive_done().errors(), wanted[i]) << i;
        renew();
    }
}

TEST_P(ViCompletion, DescriptorsOutsideRegisteredMemoryAreRefused) {
    const auto foreign_tag = nic->create_tag();
    ASSERT_TRUE(foreign_tag);
    const auto foreign =
        nic->register_memory(memory.get(), sizeof *memory, {foreign_tag.value(), 3});
    ASSERT_TRUE(foreign);
    LongDescriptor outside{};
    std::vector<VIP_DESCRIPTOR*> raised;
    struct Bad {
        VIP_DESCRIPTOR* descriptor;
        std::uint32_t handle;
    };
    // The last one begins inside, but its segments do not end there.
    auto* at_the_end = reinterpret_cast<VIP_DESCRIPTOR*>(
        reinterpret_cast<std::uint64_t>(memory.get() + 1) / 64 * 64 - 64);
    const Bad cases[] = {{&outside.head, memory_handle},
                         {message(0), memory_handle ^ 0x10000},
                         {message(0), foreign.value()},
                         {at_the_end, memory_handle}};
    for (const bool as_send : {true, false})
        for (const Bad& bad : cases) {
            bad.descriptor->CS.SegCount = bad.descriptor == at_the_end ? 7 : 1;
            const auto outcome = as_send ? vi->post_send(handle, bad.descriptor, bad.handle)
                                         : vi->post_receive(handle, bad.descriptor, bad.handle);
            EXPECT_EQ(outcome, PostOutcome::BadDescriptor);
            settle_service();
            const auto seen = errors.take();
            ASSERT_EQ(seen.size(), 1U);
            EXPECT_EQ(seen[0].ErrorCode, VIP_ERROR_POST_DESC);
            EXPECT_EQ(seen[0].ResourceCode, VIP_RESOURCE_DESCRIPTOR);
            EXPECT_EQ(seen[0].DescriptorPtr, bad.descriptor);
            EXPECT_EQ(seen[0].ViHandle, reinterpret_cast<void*>(handle));
            EXPECT_EQ(seen[0].NicHandle, nic->handle());
            EXPECT_EQ(state(), reliable() ? ViState::Error : ViState::Connected);
            expect_empty(as_send ? Queue::Send : Queue::Receive);
            renew();
        }
    EXPECT_EQ(send(nullptr), PostOutcome::BadDescriptor);
    EXPECT_EQ(receive(nullptr), PostOutcome::BadDescriptor);
    auto* crooked = reinterpret_cast<VIP_DESCRIPTOR*>(reinterpret_cast<std::byte*>(message(0)) + 8);
    EXPECT_EQ(send(crooked), PostOutcome::BadDescriptor);
    EXPECT_EQ(receive(crooked), PostOutcome::BadDescriptor);
}

TEST_P(ViCompletion, TooManyDescriptorsAreAnOverrun) {
    const std::uint32_t most = nic->max_descriptors();
    for (std::uint32_t i = 0; i < most; ++i)
        ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    EXPECT_EQ(receive(message(1)), PostOutcome::Overrun);
    EXPECT_EQ(error_codes(), Codes{VIP_ERROR_VI_OVERRUN});
    EXPECT_EQ(state(), ViState::Connected);
    endpoint->complete_receive(0, 8);
    EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
    EXPECT_EQ(receive(message(1)), PostOutcome::Success);
    ASSERT_TRUE(vi->disconnect(handle));
    std::uint32_t flushed = 0;
    while (receive_done().descriptor != nullptr)
        ++flushed;
    EXPECT_EQ(flushed, most);
}

TEST_P(ViCompletion, ADescriptorThatIsDeregisteredIsNotWrittenAnyMore) {
    auto elsewhere = std::make_unique<LongDescriptor>();
    const auto region = nic->register_memory(elsewhere.get(), sizeof *elsewhere, {tag, 0});
    ASSERT_TRUE(region);
    elsewhere->head.CS = {};
    elsewhere->head.CS.SegCount = 0;
    ASSERT_EQ(vi->post_receive(handle, &elsewhere->head, region.value()), PostOutcome::Success);
    ASSERT_TRUE(nic->deregister_memory(elsewhere.get(), region.value()));
    elsewhere->head.CS.Status = 0x77;
    endpoint->complete_receive(0, 8);
    const Taken taken = receive_done();
    EXPECT_EQ(taken.descriptor, &elsewhere->head) << "it is still accounted for";
    EXPECT_EQ(elsewhere->head.CS.Status, 0x77U);
    EXPECT_EQ(error_codes(), Codes{VIP_ERROR_COMP_PROT});
}

// ---- States ------------------------------------------------------------------------------------

TEST_P(ViCompletion, IdleHoldsReceivesAndFlushesSends) {
    ASSERT_TRUE(vi->disconnect(handle));
    for (std::size_t i = 0; i < 20; ++i) {
        ASSERT_EQ(send(message(i)), PostOutcome::Success);
        const Taken taken = send_done();
        ASSERT_EQ(taken.descriptor, &memory->descriptors[i].head);
        ASSERT_EQ(taken.errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
    }
    ASSERT_EQ(receive(message(30)), PostOutcome::Success);
    EXPECT_EQ(receive_done().outcome, DoneOutcome::NotDone);
    connect();
    // Sends that failed before do not stand in the way of those that come now.
    const int rings = endpoint->rings();
    ASSERT_EQ(send(message(31)), PostOutcome::Success);
    EXPECT_EQ(endpoint->rings(), rings + 1);
    std::uint64_t started = 0;
    endpoint->arrive([&](na::QueuePair& queues) {
        ASSERT_TRUE(queues.send.has_work());
        started = queues.send.start();
        EXPECT_EQ(started, queues.send.posted() - 1);
        EXPECT_FALSE(queues.send.has_work());
    });
    EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
    for (std::size_t i = 32; i < 60; ++i)
        ASSERT_EQ(send(message(i)), PostOutcome::Success);
    endpoint->arrive([&](na::QueuePair& queues) { queues.send.complete(started, 0, 8); });
    EXPECT_EQ(send_done().descriptor, &memory->descriptors[31].head);
    endpoint->complete_receive(0, 8);
    EXPECT_EQ(receive_done().descriptor, &memory->descriptors[30].head);
}

// ---- Waiting
// -------------------------------------------------------------------------------------

TEST_P(ViCompletion, WaitEndsAtItsDeadline) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    VIP_DESCRIPTOR* descriptor = nullptr;
    const base::Deadline deadline = base::Deadline::after_milliseconds(5);
    EXPECT_EQ(vi->wait(handle, Queue::Receive, deadline, descriptor), DoneOutcome::NotDone);
    EXPECT_TRUE(deadline.expired());
    EXPECT_EQ(descriptor, nullptr);
}

TEST_P(ViCompletion, WaitIsWokenByArrivals) {
    const base::Deadline deadline = far();
    constexpr std::size_t rounds = repeated(300);
    for (std::size_t round = 0; round < rounds; ++round) {
        ASSERT_EQ(receive(message(0)), PostOutcome::Success);
        std::thread peer([&] {
            if (round % 2 == 0) {
                // Only after the other has gone to sleep, or it would find it by polling.
                while (endpoint->armed() != na::Wakes::Sleeper && !deadline.expired())
                    sched_yield();
            }
            endpoint->complete_receive(0, 8);
        });
        VIP_DESCRIPTOR* descriptor = nullptr;
        EXPECT_EQ(vi->wait(handle, Queue::Receive, deadline, descriptor), DoneOutcome::Success);
        peer.join();
        ASSERT_FALSE(deadline.expired());
    }
}

TEST_P(ViCompletion, WaitIsWokenByAnotherThreadOfTheProgram) {
    const base::Deadline deadline = far();
    for (int round = 0; round < 50; ++round) {
        ASSERT_EQ(receive(message(0)), PostOutcome::Success);
        std::thread other([&] {
            while (endpoint->armed() != na::Wakes::Sleeper && !deadline.expired())
                sched_yield();
            ASSERT_TRUE(vi->disconnect(handle));
        });
        VIP_DESCRIPTOR* descriptor = nullptr;
        EXPECT_EQ(vi->wait(handle, Queue::Receive, deadline, descriptor),
                  DoneOutcome::DescriptorError);
        EXPECT_EQ(descriptor, &memory->descriptors[0].head);
        other.join();
        ASSERT_FALSE(deadline.expired());
        connect();
    }
}

TEST_P(ViCompletion, DoneDoesNotBlockBehindWait) {
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    const base::Deadline deadline = far();
    std::thread sleeper([&] {
        VIP_DESCRIPTOR* descriptor = nullptr;
        EXPECT_NE(vi->wait(handle, Queue::Send, deadline, descriptor), DoneOutcome::NotDone);
    });
    while (endpoint->armed() != na::Wakes::Sleeper && !deadline.expired())
        sched_yield();
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(send_done().outcome, DoneOutcome::NotDone);
    endpoint->complete_send(0, 8);
    sleeper.join();
    EXPECT_FALSE(deadline.expired());
}

TEST_P(ViCompletion, ClosingTheNicEndsWaits) {
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    const base::Deadline deadline = far();
    std::thread sleeper([&] {
        VIP_DESCRIPTOR* descriptor = nullptr;
        EXPECT_EQ(vi->wait(handle, Queue::Send, deadline, descriptor), DoneOutcome::StaleHandle);
    });
    while (endpoint->armed() != na::Wakes::Sleeper && !deadline.expired())
        sched_yield();
    nic->close();
    sleeper.join();
    EXPECT_FALSE(deadline.expired());
}

// ---- Many threads
// --------------------------------------------------------------------------------

TEST_P(ViCompletion, ManyThreadsMayUseOneVi) {
    endpoint->set_eager(true);
    const base::Deadline deadline = far();
    constexpr std::uint32_t each = repeated(2000);
    std::atomic<std::uint32_t> posted{0};
    std::atomic<std::uint32_t> taken{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            VIP_DESCRIPTOR* own = message(t);
            for (std::uint32_t i = 0; i < each && !deadline.expired(); ++i) {
                // A descriptor of its own each time: others may take it back.
                while (posted - taken > 40 && !deadline.expired())
                    sched_yield();
                if (send(own) != PostOutcome::Success) ADD_FAILURE();
                ++posted;
                VIP_DESCRIPTOR* descriptor = nullptr;
                if (vi->done(handle, Queue::Send, descriptor) == DoneOutcome::Success) ++taken;
                [[maybe_unused]] const bool more = vi->progress();
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    while (send_done().descriptor != nullptr)
        ++taken;
    EXPECT_EQ(posted, 3 * each);
    EXPECT_EQ(taken, 3 * each);
}

INSTANTIATE_TEST_SUITE_P(Levels, ViCompletion,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

}  // namespace
