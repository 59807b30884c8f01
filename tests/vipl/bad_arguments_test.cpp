// SPDX-License-Identifier: BSD-3-Clause
// Every function with every kind of wrong handle: it says VIP_INVALID_PARAMETER and touches
// nothing. NULL output pointers are with the functions' own tests.
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

void vi_handler(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR*) {}
void cq_handler(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}
void error_handler(VIP_PVOID, VIP_ERROR_DESCRIPTOR*) {}

/// Good arguments for everything but the handle under test.
struct Arguments {
    Nic nic;
    Arena arena{nic, {.bytes = 65536}};
    VIP_CQ_HANDLE cq = nullptr;
    std::unique_ptr<Vi> vi;
    Address local{nic, unique_discriminator()};
    Address remote{nic, unique_discriminator()};
    Address room;
    VIP_PROTECTION_HANDLE tag = make_tag(nic);
    VIP_VI_ATTRIBUTES vi_attributes = attributes_for(nic, {});
    VIP_MEM_ATTRIBUTES memory_attributes{};
    VIP_NIC_ATTRIBUTES nic_attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    VIP_VI_HANDLE vi_out = nullptr;
    VIP_CQ_HANDLE cq_out = nullptr;
    VIP_NIC_HANDLE nic_out = nullptr;
    VIP_PROTECTION_HANDLE tag_out = nullptr;
    VIP_MEM_HANDLE memory_out = 0;
    VIP_BOOLEAN flag = VIP_FALSE;
    VIP_BOOLEAN other_flag = VIP_FALSE;
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_DESCRIPTOR* head = nullptr;
    VIP_PVOID address_out = nullptr;
    VIP_AUTODISCOVERY_LIST list{};
    char name[256] = "localhost";
    VIP_ULONG name_bytes = sizeof name;

    Arguments() {
        EXPECT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 4, &cq));
        vi = std::make_unique<Vi>(nic);
    }
    ~Arguments() {
        vi.reset();
        EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;
};

struct Call {
    const char* name;
    std::function<VIP_RETURN(Arguments&, VIP_PVOID handle)> call;
};

/// Every function that takes a NIC handle.
const std::vector<Call>& nic_calls() {
    static const std::vector<Call> calls = {
        {"VipCloseNic", [](Arguments&, VIP_PVOID nic) { return VipCloseNic(nic); }},
        {"VipQueryNic",
         [](Arguments& a, VIP_PVOID nic) { return VipQueryNic(nic, &a.nic_attributes); }},
        {"VipCreateVi",
         [](Arguments& a, VIP_PVOID nic) {
             return VipCreateVi(nic, &a.vi_attributes, nullptr, nullptr, &a.vi_out);
         }},
        {"VipConnectWait",
         [](Arguments& a, VIP_PVOID nic) {
             return VipConnectWait(nic, a.local.get(), 1, a.room.get(), &a.vi_attributes,
                                   &a.connection);
         }},
        {"VipCreatePtag",
         [](Arguments& a, VIP_PVOID nic) { return VipCreatePtag(nic, &a.tag_out); }},
        {"VipDestroyPtag", [](Arguments& a, VIP_PVOID nic) { return VipDestroyPtag(nic, a.tag); }},
        {"VipRegisterMem",
         [](Arguments& a, VIP_PVOID nic) {
             return VipRegisterMem(nic, a.arena.base(), 4096, &a.memory_attributes, &a.memory_out);
         }},
        {"VipDeregisterMem",
         [](Arguments& a, VIP_PVOID nic) {
             return VipDeregisterMem(nic, a.arena.base(), a.arena.handle());
         }},
        {"VipSetMemAttributes",
         [](Arguments& a, VIP_PVOID nic) {
             return VipSetMemAttributes(nic, a.arena.base(), a.arena.handle(),
                                        &a.memory_attributes);
         }},
        {"VipQueryMem",
         [](Arguments& a, VIP_PVOID nic) {
             return VipQueryMem(nic, a.arena.base(), a.arena.handle(), &a.memory_attributes);
         }},
        {"VipCreateCQ", [](Arguments& a, VIP_PVOID nic) { return VipCreateCQ(nic, 4, &a.cq_out); }},
        {"VipErrorCallback",
         [](Arguments&, VIP_PVOID nic) { return VipErrorCallback(nic, nullptr, &error_handler); }},
        {"VipQuerySystemManagementInfo",
         [](Arguments& a, VIP_PVOID nic) {
             return VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &a.list);
         }},
        {"VipNSInit", [](Arguments&, VIP_PVOID nic) { return VipNSInit(nic, nullptr); }},
        {"VipNSGetHostByName",
         [](Arguments& a, VIP_PVOID nic) {
             return VipNSGetHostByName(nic, a.name, a.room.get(), 0);
         }},
        {"VipNSGetHostByAddr",
         [](Arguments& a, VIP_PVOID nic) {
             return VipNSGetHostByAddr(nic, a.local.get(), a.name, &a.name_bytes);
         }},
        {"VipNSShutdown", [](Arguments&, VIP_PVOID nic) { return VipNSShutdown(nic); }},
        {"VipxAllocMem",
         [](Arguments& a, VIP_PVOID nic) {
             return VipxAllocMem(nic, 4096, nullptr, &a.address_out, &a.memory_out);
         }},
        {"VipxFreeMem",
         [](Arguments& a, VIP_PVOID nic) {
             return VipxFreeMem(nic, a.arena.base(), a.arena.handle());
         }},
    };
    return calls;
}

/// Every function that takes a VI handle.
const std::vector<Call>& vi_calls() {
    static const std::vector<Call> calls = {
        {"VipDestroyVi", [](Arguments&, VIP_PVOID vi) { return VipDestroyVi(vi); }},
        {"VipQueryVi",
         [](Arguments& a, VIP_PVOID vi) {
             return VipQueryVi(vi, &a.state, &a.vi_attributes, &a.flag, &a.other_flag);
         }},
        {"VipSetViAttributes",
         [](Arguments& a, VIP_PVOID vi) { return VipSetViAttributes(vi, &a.vi_attributes); }},
        {"VipConnectRequest",
         [](Arguments& a, VIP_PVOID vi) {
             return VipConnectRequest(vi, a.local.get(), a.remote.get(), 1, &a.vi_attributes);
         }},
        {"VipDisconnect", [](Arguments&, VIP_PVOID vi) { return VipDisconnect(vi); }},
        {"VipConnectPeerRequest",
         [](Arguments& a, VIP_PVOID vi) {
             return VipConnectPeerRequest(vi, a.local.get(), a.remote.get(), 1);
         }},
        {"VipConnectPeerDone",
         [](Arguments& a, VIP_PVOID vi) { return VipConnectPeerDone(vi, &a.vi_attributes); }},
        {"VipConnectPeerWait",
         [](Arguments& a, VIP_PVOID vi) { return VipConnectPeerWait(vi, &a.vi_attributes); }},
        {"VipPostSend",
         [](Arguments& a, VIP_PVOID vi) {
             return VipPostSend(vi, a.arena.descriptor(), a.arena.handle());
         }},
        {"VipPostRecv",
         [](Arguments& a, VIP_PVOID vi) {
             return VipPostRecv(vi, a.arena.descriptor(), a.arena.handle());
         }},
        {"VipSendDone", [](Arguments& a, VIP_PVOID vi) { return VipSendDone(vi, &a.head); }},
        {"VipRecvDone", [](Arguments& a, VIP_PVOID vi) { return VipRecvDone(vi, &a.head); }},
        {"VipSendWait", [](Arguments& a, VIP_PVOID vi) { return VipSendWait(vi, 1, &a.head); }},
        {"VipRecvWait", [](Arguments& a, VIP_PVOID vi) { return VipRecvWait(vi, 1, &a.head); }},
        {"VipSendNotify",
         [](Arguments&, VIP_PVOID vi) { return VipSendNotify(vi, nullptr, &vi_handler); }},
        {"VipRecvNotify",
         [](Arguments&, VIP_PVOID vi) { return VipRecvNotify(vi, nullptr, &vi_handler); }},
    };
    return calls;
}

/// Every function that takes a CQ handle, and the two that take a connection handle.
const std::vector<Call>& cq_calls() {
    static const std::vector<Call> calls = {
        {"VipDestroyCQ", [](Arguments&, VIP_PVOID cq) { return VipDestroyCQ(cq); }},
        {"VipResizeCQ", [](Arguments&, VIP_PVOID cq) { return VipResizeCQ(cq, 8); }},
        {"VipCQDone", [](Arguments& a, VIP_PVOID cq) { return VipCQDone(cq, &a.vi_out, &a.flag); }},
        {"VipCQWait",
         [](Arguments& a, VIP_PVOID cq) { return VipCQWait(cq, 1, &a.vi_out, &a.flag); }},
        {"VipCQNotify",
         [](Arguments&, VIP_PVOID cq) { return VipCQNotify(cq, nullptr, &cq_handler); }},
    };
    return calls;
}

const std::vector<Call>& connection_calls() {
    static const std::vector<Call> calls = {
        {"VipConnectAccept",
         [](Arguments& a, VIP_PVOID connection) { return VipConnectAccept(connection, *a.vi); }},
        {"VipConnectReject",
         [](Arguments&, VIP_PVOID connection) { return VipConnectReject(connection); }},
    };
    return calls;
}

std::vector<Call> all_calls() {
    std::vector<Call> all;
    for (const auto* some : {&nic_calls(), &vi_calls(), &cq_calls(), &connection_calls()}) {
        all.insert(all.end(), some->begin(), some->end());
    }
    return all;
}

void expect_refused(Arguments& arguments, const std::vector<Call>& calls, VIP_PVOID handle) {
    for (const Call& each : calls) {
        EXPECT_VIP(VIP_INVALID_PARAMETER, each.call(arguments, handle))
            << each.name << " with " << handle;
    }
}

TEST(BadArguments, AllFunctionsAreHere) {
    // VipOpenNic has no handle and its own tests; the two Vipx functions are beyond the standard.
    EXPECT_EQ(all_calls().size() + 1 - 2, 41U);
}

TEST(BadArguments, NullHandles) {
    Arguments arguments;
    expect_refused(arguments, all_calls(), nullptr);
}

TEST(BadArguments, HandlesThatAreNoHandles) {
    Arguments arguments;
    int on_stack = 0;
    auto on_heap = std::make_unique<long>(0);
    void* unreadable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(unreadable, MAP_FAILED);
    for (VIP_PVOID handle :
         {static_cast<VIP_PVOID>(&on_stack), static_cast<VIP_PVOID>(on_heap.get()), unreadable,
          reinterpret_cast<VIP_PVOID>(1), reinterpret_cast<VIP_PVOID>(0xFFFF),
          reinterpret_cast<VIP_PVOID>(0xFFFFFFFFUL), reinterpret_cast<VIP_PVOID>(~0UL),
          reinterpret_cast<VIP_PVOID>(0x8000000000000000UL),
          reinterpret_cast<VIP_PVOID>(0xDEADBEEFDEADBEEFUL)}) {
        expect_refused(arguments, all_calls(), handle);
    }
    munmap(unreadable, 4096);
}

TEST(BadArguments, HandlesOfAnotherKind) {
    Arguments arguments;
    const VIP_PVOID nic = static_cast<VIP_NIC_HANDLE>(arguments.nic);
    const VIP_PVOID vi = static_cast<VIP_VI_HANDLE>(*arguments.vi);
    const VIP_PVOID cq = arguments.cq;
    const VIP_PVOID tag = arguments.tag;
    for (VIP_PVOID handle : {vi, cq, tag})
        expect_refused(arguments, nic_calls(), handle);
    for (VIP_PVOID handle : {nic, cq, tag})
        expect_refused(arguments, vi_calls(), handle);
    for (VIP_PVOID handle : {nic, vi, tag})
        expect_refused(arguments, cq_calls(), handle);
    for (VIP_PVOID handle : {nic, vi, cq, tag}) {
        expect_refused(arguments, connection_calls(), handle);
    }
}

TEST(BadArguments, HandlesNextToGoodOnes) {
    Arguments arguments;
    const auto nic = reinterpret_cast<std::uintptr_t>(static_cast<VIP_NIC_HANDLE>(arguments.nic));
    const auto vi = reinterpret_cast<std::uintptr_t>(static_cast<VIP_VI_HANDLE>(*arguments.vi));
    const auto cq = reinterpret_cast<std::uintptr_t>(arguments.cq);
    for (const std::uintptr_t flip :
         {std::uintptr_t{1} << 1, std::uintptr_t{1} << 20, std::uintptr_t{1} << 33,
          std::uintptr_t{1} << 47, std::uintptr_t{1} << 60}) {
        expect_refused(arguments, nic_calls(), reinterpret_cast<VIP_PVOID>(nic ^ flip));
        expect_refused(arguments, vi_calls(), reinterpret_cast<VIP_PVOID>(vi ^ flip));
        expect_refused(arguments, cq_calls(), reinterpret_cast<VIP_PVOID>(cq ^ flip));
    }
}

TEST(BadArguments, StaleHandles) {
    Arguments arguments;
    VIP_NIC_HANDLE nic = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipOpenNic(device(), &nic));
    ASSERT_VIP(VIP_SUCCESS, VipCloseNic(nic));
    VIP_VI_HANDLE vi = nullptr;
    ASSERT_VIP(VIP_SUCCESS,
               VipCreateVi(arguments.nic, &arguments.vi_attributes, nullptr, nullptr, &vi));
    ASSERT_VIP(VIP_SUCCESS, VipDestroyVi(vi));
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(arguments.nic, 4, &cq));
    ASSERT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
    expect_refused(arguments, nic_calls(), nic);
    expect_refused(arguments, vi_calls(), vi);
    expect_refused(arguments, cq_calls(), cq);
    // And again when their places may have been taken by others.
    const Nic new_nic;
    const Vi new_vi(arguments.nic);
    VIP_CQ_HANDLE new_cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(arguments.nic, 4, &new_cq));
    expect_refused(arguments, nic_calls(), nic);
    expect_refused(arguments, vi_calls(), vi);
    expect_refused(arguments, cq_calls(), cq);
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(new_cq));
}

TEST(BadArguments, StaleConnectionHandles) {
    Arguments arguments;
    Vi client(arguments.nic);
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester(
        [&] { requested = request_until_matched(client, arguments.remote, arguments.local); });
    EXPECT_VIP(VIP_SUCCESS, VipConnectWait(arguments.nic, arguments.local.get(), patience_ms,
                                           arguments.room.get(), &arguments.vi_attributes,
                                           &arguments.connection));
    const VIP_CONN_HANDLE connection = arguments.connection;
    expect_refused(arguments, nic_calls(), connection);
    expect_refused(arguments, vi_calls(), connection);
    expect_refused(arguments, cq_calls(), connection);
    EXPECT_VIP(VIP_SUCCESS, VipConnectReject(connection));
    requester.join();
    EXPECT_VIP(VIP_REJECT, requested);
    expect_refused(arguments, connection_calls(), connection);
}

TEST(BadArguments, NothingWasHarmed) {
    Arguments arguments;
    expect_refused(arguments, all_calls(), nullptr);
    int something = 0;
    expect_refused(arguments, all_calls(), &something);
    Pair pair;
    expect_traffic(pair);
    EXPECT_VIP(VIP_SUCCESS, VipQueryNic(arguments.nic, &arguments.nic_attributes));
    EXPECT_EQ(arguments.vi->state(), VIP_STATE_IDLE);
}

}  // namespace
}  // namespace via::test
