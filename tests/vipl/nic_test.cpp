// SPDX-License-Identifier: BSD-3-Clause
// VipOpenNic, VipCloseNic, VipQueryNic.
#include <dirent.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

TEST(Nic, OpenGivesAHandle) {
    VIP_NIC_HANDLE nic = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipOpenNic(device(), &nic));
    EXPECT_NE(nic, nullptr);
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
}

TEST(Nic, OpenAgainGivesAnotherHandleToTheSameNic) {
    const Nic first;
    const Nic second;
    EXPECT_NE(static_cast<VIP_NIC_HANDLE>(first), static_cast<VIP_NIC_HANDLE>(second));
    EXPECT_EQ(host_of(first), host_of(second));
    EXPECT_STREQ(first.attributes().Name, second.attributes().Name);
}

TEST(Nic, OpenManyTimes) {
    std::vector<std::unique_ptr<Nic>> nics;
    for (int i = 0; i < 32; ++i)
        nics.push_back(std::make_unique<Nic>());
    for (std::size_t i = 0; i < nics.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_NE(static_cast<VIP_NIC_HANDLE>(*nics[i]), static_cast<VIP_NIC_HANDLE>(*nics[j]));
        }
    }
}

TEST(Nic, OpenRefusesAnUnknownDevice) {
    VIP_NIC_HANDLE nic = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipOpenNic("no-such-device", &nic));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipOpenNic("", &nic));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipOpenNic("/dev/null", &nic));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipOpenNic(std::string(100000, 'x').c_str(), &nic));
    EXPECT_NE(std::string_view(VipxErrorText()), "");
}

TEST(Nic, OpenRefusesNullPointers) {
    VIP_NIC_HANDLE nic = nullptr;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipOpenNic(nullptr, &nic));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipOpenNic(device(), nullptr));
}

class DeviceAlias : public testing::TestWithParam<const char*> {};

// Names that programs for M-VIA, cLAN, VI-GM and Windows providers pass.
TEST_P(DeviceAlias, Opens) {
    VIP_NIC_HANDLE nic = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipOpenNic(GetParam(), &nic));
    VIP_NIC_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_SUCCESS, VipQueryNic(nic, &attributes));
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
}

INSTANTIATE_TEST_SUITE_P(Names, DeviceAlias,
                         testing::Values("/dev/via_lo", "/etc/via_lo", "/dev/via_eth0",
                                         "/dev/via_eth1", "/dev/clanvi0", "VINIC", "VINIC0", "nic0",
                                         "\\\\.\\VI1"));

PEER(open_without_descriptors) {
    // Use up the descriptors: the library needs some, so it must say that it has none.
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlimit tight = limit;
    tight.rlim_cur = 3;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    VIP_NIC_HANDLE nic = nullptr;
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipOpenNic(device(), &nic));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_VIP(VIP_SUCCESS, VipOpenNic(device(), &nic));
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
}

TEST(Nic, OpenWithoutFileDescriptorsIsAResourceError) {
    PeerProcess peer("open_without_descriptors");
    EXPECT_EQ(peer.wait(), 0);
}

PEER(open_without_agent) {
    VIP_NIC_HANDLE nic = nullptr;
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipOpenNic(device(), &nic));
    EXPECT_NE(std::string_view(VipxErrorText()), "");
}

TEST(Nic, OpenWithoutAKernelAgentIsAResourceError) {
    PeerProcess peer("open_without_agent", {{"VIA_AGENT_SOCKET", "@viaduct/test/nobody"},
                                            {"VIA_AGENT_PROGRAM", "/nonexistent/viad"}});
    EXPECT_EQ(peer.wait(), 0);
}

TEST(Nic, OpenWhereNoAgentMayBeStartedIsAResourceError) {
    PeerProcess peer("open_without_agent",
                     {{"VIA_AGENT_SOCKET", "@viaduct/test/nobody"}, {"VIA_AGENT_START", "0"}});
    EXPECT_EQ(peer.wait(), 0);
}

TEST(Nic, CloseMakesTheHandleStale) {
    VIP_NIC_HANDLE nic = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipOpenNic(device(), &nic));
    ASSERT_VIP(VIP_SUCCESS, VipCloseNic(nic));
    VIP_NIC_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryNic(nic, &attributes));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCloseNic(nic));
}

TEST(Nic, AStaleHandleStaysStaleAfterOthersWereOpened) {
    VIP_NIC_HANDLE stale = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipOpenNic(device(), &stale));
    ASSERT_VIP(VIP_SUCCESS, VipCloseNic(stale));
    for (int i = 0; i < 20; ++i) {
        const Nic another;
        EXPECT_VIP(VIP_INVALID_PARAMETER, VipCloseNic(stale));
    }
}

TEST(Nic, CloseFreesWhatIsLeft) {
    Nic nic;
    VIP_PROTECTION_HANDLE tag = make_tag(nic);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, 8192));
    ASSERT_NE(memory, nullptr);
    VIP_MEM_ATTRIBUTES memory_attributes{tag, VIP_TRUE, VIP_FALSE};
    VIP_MEM_HANDLE memory_handle = 0;
    ASSERT_VIP(VIP_SUCCESS, VipRegisterMem(nic, memory, 8192, &memory_attributes, &memory_handle));
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 16, &cq));
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {.tag = tag});
    VIP_VI_HANDLE vi = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, cq, &vi));
    auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
    const Segment segment{memory + 4096, memory_handle, 64};
    fill(descriptor, {&segment, 1});
    ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, descriptor, memory_handle));

    ASSERT_VIP(VIP_SUCCESS, VipCloseNic(nic.release()));

    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    VIP_VI_HANDLE entry = nullptr;
    VIP_BOOLEAN recv_queue = VIP_FALSE;
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipQueryVi(vi, &state, &attributes, &send_empty, &recv_empty));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyVi(vi));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipCQDone(cq, &entry, &recv_queue));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
    std::free(memory);

    // The handle of the region is gone too: another NIC handle can not use it.
    Pair pair;
    VIP_DESCRIPTOR* send = pair.client.arena.descriptor();
    const Segment stale{pair.client.arena.take(64), memory_handle, 64};
    fill(send, {&stale, 1});
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(send));
    EXPECT_EQ(pair.client.vi.await_send().errors() & VIP_STATUS_PROTECTION_ERROR,
              static_cast<unsigned>(VIP_STATUS_PROTECTION_ERROR));
}

TEST(Nic, CloseDoesNotTouchMemoryThatIsGone) {
    Nic nic;
    auto* memory = static_cast<std::byte*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    VIP_MEM_HANDLE handle = 0;
    ASSERT_VIP(VIP_SUCCESS, VipRegisterMem(nic, memory, 8192, nullptr, &handle));
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    VIP_VI_HANDLE vi = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
    const Segment segment{memory + 4096, handle, 64};
    fill(descriptor, {&segment, 1});
    ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, descriptor, handle));
    ASSERT_EQ(munmap(memory, 8192), 0);
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic.release()));
}

TEST(Nic, CloseWithAConnectedViLosesTheConnectionForThePeer) {
    Nic server_nic;
    Vi server(server_nic);
    VIP_VI_HANDLE server_handle = server;
    {
        Nic client_nic;
        Vi client(client_nic);
        ASSERT_VIP(VIP_SUCCESS, connect(client, server).request);
        client.forget();
        client_nic.close();
    }
    EXPECT_TRUE(server_nic.errors().await(VIP_ERROR_CONN_LOST, server_handle));
    EXPECT_TRUE(server.becomes(VIP_STATE_ERROR));
}

TEST(Nic, CloseLeavesOtherHandlesAlone) {
    Pair pair;
    {
        Nic third;
        Vi vi(third);
        vi.forget();
    }
    expect_traffic(pair);
}

TEST(Nic, QueryTellsTheAttributes) {
    const Nic nic;
    const VIP_NIC_ATTRIBUTES& attributes = nic.attributes();
    EXPECT_GE(attributes.NicAddressLen, 6);
    EXPECT_LE(attributes.NicAddressLen, 20);
    ASSERT_NE(attributes.LocalNicAddress, nullptr);
    EXPECT_GE(attributes.MaxDiscriminatorLen, 16);
    EXPECT_LT(strnlen(attributes.Name, sizeof attributes.Name), sizeof attributes.Name);
    EXPECT_NE(attributes.Name[0], '\0');
    EXPECT_EQ(attributes.ThreadSafe, VIP_TRUE);
    // What consumers need without asking.
    EXPECT_GE(attributes.MaxTransferSize, 65536U);
    EXPECT_GE(attributes.MaxCQEntries, 1024U);
    EXPECT_GE(attributes.MaxDescriptorsPerQueue, 300U);
    EXPECT_GE(attributes.MaxSegmentsPerDesc, 2U);
    EXPECT_LE(attributes.MaxSegmentsPerDesc, 252U);
    EXPECT_GE(attributes.MaxVI, 1000U);
    EXPECT_GE(attributes.MaxCQ, 2U);
    EXPECT_GE(attributes.MaxPtags, 2U);
    EXPECT_GE(attributes.MaxRegisterRegions, 1000U);
    EXPECT_GE(attributes.MaxRegisterBlockBytes, attributes.MaxTransferSize);
    EXPECT_GE(attributes.MaxRegisterBytes, attributes.MaxRegisterBlockBytes);
    EXPECT_GT(attributes.NativeMTU, 0U);
}

TEST(Nic, QueryTellsTheReliabilityLevels) {
    const Nic nic;
    const VIP_NIC_ATTRIBUTES& attributes = nic.attributes();
    constexpr unsigned all = unreliable | reliable_delivery | reliable_reception;
    EXPECT_NE(attributes.ReliabilityLevelSupport & unreliable, 0);
    EXPECT_EQ(attributes.ReliabilityLevelSupport & ~all, 0U);
    EXPECT_EQ(attributes.RDMAReadSupport & ~attributes.ReliabilityLevelSupport, 0);
    EXPECT_EQ(attributes.RDMAReadSupport & unreliable, 0);
    if (std::string_view(device()) == "shm0") {
        EXPECT_EQ(attributes.ReliabilityLevelSupport, all);
        EXPECT_EQ(attributes.RDMAReadSupport, reliable_delivery | reliable_reception);
    }
}

TEST(Nic, QueryIsStatic) {
    const Nic nic;
    VIP_NIC_ATTRIBUTES again{};
    ASSERT_VIP(VIP_SUCCESS, VipQueryNic(nic, &again));
    EXPECT_EQ(again.LocalNicAddress, nic.attributes().LocalNicAddress);
    EXPECT_EQ(again.MaxVI, nic.attributes().MaxVI);
    EXPECT_EQ(again.MaxTransferSize, nic.attributes().MaxTransferSize);
    EXPECT_EQ(again.MaxDescriptorsPerQueue, nic.attributes().MaxDescriptorsPerQueue);
    EXPECT_EQ(again.ProviderVersion, nic.attributes().ProviderVersion);
}

TEST(Nic, QueryRefusesNullPointers) {
    const Nic nic;
    VIP_NIC_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryNic(nic, nullptr));
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipQueryNic(nullptr, &attributes));
}

PEER(leave_everything_open) {
    ClientEnd client;
    client.request(link);
    link.meet();
    // No disconnect, no close: the process just ends.
    std::_Exit(0);
}

TEST(Nic, AProcessThatEndsWithoutClosingLosesItsConnections) {
    NEEDS_TWO_PROCESSES();
    ServerEnd server;
    PeerProcess peer("leave_everything_open");
    server.accept(peer.link);
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
    EXPECT_TRUE(server.nic.errors().await(VIP_ERROR_CONN_LOST, server.end.vi));
    EXPECT_TRUE(server.end.vi.becomes(VIP_STATE_ERROR));
}

}  // namespace
}  // namespace via::test
