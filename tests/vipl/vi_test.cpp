// SPDX-License-Identifier: BSD-3-Clause
// VipCreateVi, VipDestroyVi, VipQueryVi, VipSetViAttributes.
#include <sys/resource.h>

#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

VIP_RETURN create(const Nic& nic, VIP_VI_ATTRIBUTES attributes, VIP_CQ_HANDLE send_cq = nullptr,
                  VIP_CQ_HANDLE recv_cq = nullptr) {
    VIP_VI_HANDLE vi = nullptr;
    const VIP_RETURN code = VipCreateVi(nic, &attributes, send_cq, recv_cq, &vi);
    if (code == VIP_SUCCESS) {
        EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(vi));
    }
    return code;
}

void expect_equal(const VIP_VI_ATTRIBUTES& left, const VIP_VI_ATTRIBUTES& right) {
    EXPECT_EQ(left.ReliabilityLevel, right.ReliabilityLevel);
    EXPECT_EQ(left.MaxTransferSize, right.MaxTransferSize);
    EXPECT_EQ(left.QoS, right.QoS);
    EXPECT_EQ(left.Ptag, right.Ptag);
    EXPECT_EQ(left.EnableRdmaWrite, right.EnableRdmaWrite);
    EXPECT_EQ(left.EnableRdmaRead, right.EnableRdmaRead);
}

TEST(Vi, CreateGivesAnIdleViWithEmptyQueues) {
    Nic nic;
    const Vi vi(nic);
    EXPECT_NE(static_cast<VIP_VI_HANDLE>(vi), nullptr);
    EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
    EXPECT_TRUE(vi.send_queue_empty());
    EXPECT_TRUE(vi.recv_queue_empty());
}

TEST(Vi, CreateGrantsWhatWasAsked) {
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    const ViOptions options{.level = unreliable,
                            .max_transfer_bytes = 4096,
                            .tag = tag,
                            .rdma_write = true,
                            .rdma_read = false};
    const Vi vi(nic, options);
    expect_equal(vi.attributes(), attributes_for(nic, options));
}

TEST(Vi, CreateTakesAnyCombinationOfCompletionQueues) {
    Nic nic;
    VIP_CQ_HANDLE first = nullptr;
    VIP_CQ_HANDLE second = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 8, &first));
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 8, &second));
    const VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes, nullptr, nullptr));
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes, first, first));
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes, first, second));
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes, first, nullptr));
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes, nullptr, second));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(first));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(second));
}

TEST(Vi, CreateRefusesAReliabilityLevelThatIsNotOne) {
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    for (const unsigned level : {0U, 3U, 5U, 6U, 7U, 8U, 0x8001U}) {
        attributes.ReliabilityLevel = static_cast<VIP_RELIABILITY_LEVEL>(level);
        EXPECT_VIP(VIP_INVALID_RELIABILITY_LEVEL, create(nic, attributes)) << level;
    }
}

TEST(Vi, CreateTakesTheLargestTransferSizeAndNoLarger) {
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    attributes.MaxTransferSize = nic.attributes().MaxTransferSize;
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes));
    attributes.MaxTransferSize = nic.attributes().MaxTransferSize + 1;
    EXPECT_VIP(VIP_INVALID_MTU, create(nic, attributes));
    attributes.MaxTransferSize = ~0UL;
    EXPECT_VIP(VIP_INVALID_MTU, create(nic, attributes));
}

TEST(Vi, CreateRefusesAQualityOfService) {
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    int something = 0;
    attributes.QoS = &something;
    EXPECT_VIP(VIP_INVALID_QOS, create(nic, attributes));
}

TEST(Vi, CreateRefusesAnUnknownTag) {
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    int something = 0;
    attributes.Ptag = &something;
    EXPECT_VIP(VIP_INVALID_PTAG, create(nic, attributes));
    attributes.Ptag = make_tag(nic);
    EXPECT_VIP(VIP_SUCCESS, create(nic, attributes));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, attributes.Ptag));
    EXPECT_VIP(VIP_INVALID_PTAG, create(nic, attributes));
}

TEST(Vi, CreateRefusesATagOfAnotherNicHandle) {
    const Nic nic;
    const Nic other;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    attributes.Ptag = make_tag(other);
    EXPECT_VIP(VIP_INVALID_PTAG, create(nic, attributes));
}

TEST(Vi, CreateRefusesRdmaReadWhereItIsNotSupported) {
    const Nic nic;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {.level = unreliable});
    attributes.EnableRdmaRead = VIP_TRUE;
    EXPECT_VIP(VIP_INVALID_RDMAREAD, create(nic, attributes));
}

TEST(Vi, CreateRefusesBadHandlesAndPointers) {
    const Nic nic;
    const Nic other;
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    VIP_VI_HANDLE vi = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nullptr, &attributes, nullptr, nullptr, &vi));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nic, nullptr, nullptr, nullptr, &vi));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, nullptr, nullptr, nullptr));
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, &something, nullptr, &vi));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, nullptr, &something, &vi));
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 4, &cq));
    ASSERT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, cq, nullptr, &vi));
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(other, 4, &cq));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCreateVi(nic, &attributes, nullptr, cq, &vi));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

TEST(Vi, CreateBeyondTheMaximumIsAResourceError) {
    Nic nic;
    const VIP_ULONG maximum = nic.attributes().MaxVI;
    if (maximum > 70000) GTEST_SKIP() << "MaxVI is " << maximum << ", too many to create here";
    if (!try_limits()) GTEST_SKIP() << "limits are tried in another run";
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    std::vector<VIP_VI_HANDLE> vis;
    VIP_RETURN code = VIP_SUCCESS;
    while (vis.size() <= maximum) {
        VIP_VI_HANDLE vi = nullptr;
        code = VipCreateVi(nic, &attributes, nullptr, nullptr, &vi);
        if (code != VIP_SUCCESS) break;
        vis.push_back(vi);
    }
    EXPECT_VIP(VIP_ERROR_RESOURCE, code);
    EXPECT_GT(vis.size(), 1000U);
    ASSERT_FALSE(vis.empty());
    // One given back makes room for one.
    EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(vis.back()));
    EXPECT_VIP(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &vis.back()));
    for (VIP_VI_HANDLE vi : vis)
        ASSERT_VIP(VIP_SUCCESS, VipDestroyVi(vi));
}

TEST(Vi, DestroyMakesTheHandleStale) {
    Nic nic;
    Vi vi(nic);
    const VIP_VI_HANDLE handle = vi;
    vi.destroy();
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyVi(handle));
    for (int i = 0; i < 20; ++i) {
        const Vi another(nic);
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyVi(handle));
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipDisconnect(handle));
    }
}

TEST(Vi, DestroyRefusesBadHandles) {
    Nic nic;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyVi(nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyVi(static_cast<VIP_NIC_HANDLE>(nic)));
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyVi(&something));
}

TEST(Vi, DestroyWithPostedReceivesIsAResourceError) {
    Pair pair({.connected = false});
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_recv(pair.client.arena.message(pair.client.arena.take(64), 64)));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyVi(pair.client.vi));
    // Nothing was harmed: the receive is still there and the VI still connects.
    EXPECT_FALSE(pair.client.vi.recv_queue_empty());
    pair.connect_again();
    EXPECT_TRUE(pair.both_connected());
}

TEST(Vi, DestroyWithUndrainedQueuesIsAResourceError) {
    Pair pair({.connected = false});
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_recv(pair.client.arena.message(pair.client.arena.take(64), 64)));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyVi(pair.client.vi));
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(64), 64)));
    EXPECT_EQ(pair.client.vi.drain_recv().size(), 1U);
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyVi(pair.client.vi));
    EXPECT_EQ(pair.client.vi.drain_send().size(), 1U);
    pair.client.vi.destroy();
}

TEST(Vi, DestroyWhileConnectedIsRefusedAndHarmless) {
    Pair pair;
    EXPECT_VIP(VIP_INVALID_STATE, VipDestroyVi(pair.client.vi));
    EXPECT_VIP(VIP_INVALID_STATE, VipDestroyVi(pair.server.vi));
    expect_traffic(pair);
}

TEST(Vi, QueryTellsWhichQueuesHoldDescriptors) {
    Pair pair;
    std::byte* data = pair.server.arena.take(64);
    EXPECT_TRUE(pair.server.vi.recv_queue_empty());
    ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(data, 64)));
    EXPECT_FALSE(pair.server.vi.recv_queue_empty());
    EXPECT_TRUE(pair.server.vi.send_queue_empty());
    VIP_DESCRIPTOR* send = pair.client.arena.message(pair.client.arena.take(64), 64);
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    // Complete is not dequeued: the descriptor stays on its queue until it is taken.
    EXPECT_TRUE(eventually([&] {
        static_cast<void>(pair.client.vi.state());
        return (live_status(send) & VIP_STATUS_DONE) != 0;
    }));
    EXPECT_FALSE(pair.client.vi.send_queue_empty());
    EXPECT_VIP(VIP_SUCCESS, pair.client.vi.await_send().code);
    EXPECT_TRUE(pair.client.vi.send_queue_empty());
    EXPECT_VIP(VIP_SUCCESS, pair.server.vi.await_recv().code);
    EXPECT_TRUE(pair.server.vi.recv_queue_empty());
}

TEST(Vi, QueryRefusesBadArguments) {
    Nic nic;
    const Vi vi(nic);
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQueryVi(nullptr, &state, &attributes, &send_empty, &recv_empty));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQueryVi(vi, nullptr, &attributes, &send_empty, &recv_empty));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryVi(vi, &state, nullptr, &send_empty, &recv_empty));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryVi(vi, &state, &attributes, nullptr, &recv_empty));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryVi(vi, &state, &attributes, &send_empty, nullptr));
}

TEST(Vi, SetChangesTheAttributes) {
    Nic nic;
    const Vi vi(nic, {.level = unreliable});
    VIP_VI_ATTRIBUTES wanted = attributes_for(
        nic, {.level = reliable_delivery, .max_transfer_bytes = 4096, .tag = make_tag(nic)});
    wanted.EnableRdmaWrite = VIP_FALSE;
    ASSERT_VIP(VIP_SUCCESS, VipSetViAttributes(vi, &wanted));
    expect_equal(vi.attributes(), wanted);
}

TEST(Vi, SetRefusesWhatCreateRefusesAndChangesNothing) {
    Nic nic;
    const Vi vi(nic, {.level = unreliable, .tag = make_tag(nic)});
    const VIP_VI_ATTRIBUTES before = vi.attributes();
    int something = 0;

    VIP_VI_ATTRIBUTES wanted = before;
    wanted.ReliabilityLevel = 3;
    EXPECT_VIP(VIP_INVALID_RELIABILITY_LEVEL, VipSetViAttributes(vi, &wanted));
    wanted = before;
    wanted.MaxTransferSize = nic.attributes().MaxTransferSize + 1;
    EXPECT_VIP(VIP_INVALID_MTU, VipSetViAttributes(vi, &wanted));
    wanted = before;
    wanted.QoS = &something;
    EXPECT_VIP(VIP_INVALID_QOS, VipSetViAttributes(vi, &wanted));
    wanted = before;
    wanted.Ptag = &something;
    EXPECT_VIP(VIP_INVALID_PTAG, VipSetViAttributes(vi, &wanted));
    wanted = before;
    wanted.EnableRdmaRead = VIP_TRUE;
    EXPECT_VIP(VIP_INVALID_RDMAREAD, VipSetViAttributes(vi, &wanted));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetViAttributes(vi, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipSetViAttributes(nullptr, &wanted));

    // Several changes of which one is wrong: none is made.
    wanted = before;
    wanted.MaxTransferSize = 4096;
    wanted.EnableRdmaWrite = VIP_FALSE;
    wanted.Ptag = &something;
    EXPECT_VIP(VIP_INVALID_PTAG, VipSetViAttributes(vi, &wanted));
    expect_equal(vi.attributes(), before);
}

TEST(Vi, SetIsWhatThePeerSeesAtConnect) {
    Nic nic;
    Vi client(nic);
    Vi server(nic, {.level = unreliable});
    VIP_VI_ATTRIBUTES wanted = attributes_for(nic, {.rdma_write = false});
    ASSERT_VIP(VIP_SUCCESS, VipSetViAttributes(server, &wanted));
    const ConnectOutcome outcome = connect(client, server);
    ASSERT_VIP(VIP_SUCCESS, outcome.request);
    EXPECT_EQ(outcome.seen_by_client.ReliabilityLevel, reliable_delivery);
    EXPECT_EQ(outcome.seen_by_client.EnableRdmaWrite, VIP_FALSE);
    EXPECT_EQ(outcome.seen_by_server.EnableRdmaWrite, VIP_TRUE);
}

TEST(Vi, SetReleasesTheOldTag) {
    Nic nic;
    const VIP_PROTECTION_HANDLE first = make_tag(nic);
    const VIP_PROTECTION_HANDLE second = make_tag(nic);
    const Vi vi(nic, {.tag = first});
    VIP_VI_ATTRIBUTES wanted = attributes_for(nic, {.tag = second});
    ASSERT_VIP(VIP_SUCCESS, VipSetViAttributes(vi, &wanted));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic, first));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, second));
}

}  // namespace
}  // namespace via::test
