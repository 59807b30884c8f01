// SPDX-License-Identifier: BSD-3-Clause
// vipl.h is a binary interface: sizes, offsets and values must be what programs were compiled
// against. All of it is checked by the compiler; the tests at the end look at bytes written by C.
#include <gtest/gtest.h>
#include <vipl.h>
#include <vipx.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

extern "C" void c89_fill_in_cs_dialect(VIP_DESCRIPTOR* descriptor);
extern "C" void c89_fill_in_control_dialect(VIP_DESCRIPTOR* descriptor);

namespace {

// Scalars and handles.
static_assert(std::is_same_v<VIP_PVOID, void*>);
static_assert(std::is_same_v<VIP_BOOLEAN, int>);
static_assert(std::is_same_v<VIP_CHAR, char>);
static_assert(std::is_same_v<VIP_UCHAR, unsigned char>);
static_assert(std::is_same_v<VIP_USHORT, unsigned short>);
static_assert(std::is_same_v<VIP_ULONG, unsigned long>);
static_assert(std::is_unsigned_v<VIP_UINT64> && sizeof(VIP_UINT64) == 8);
static_assert(std::is_unsigned_v<VIP_UINT32> && sizeof(VIP_UINT32) == 4);
static_assert(std::is_unsigned_v<VIP_UINT16> && sizeof(VIP_UINT16) == 2);
static_assert(std::is_unsigned_v<VIP_UINT8> && sizeof(VIP_UINT8) == 1);
static_assert(std::is_same_v<VIP_QOS, VIP_PVOID>);
static_assert(std::is_same_v<VIP_NIC_HANDLE, VIP_PVOID>);
static_assert(std::is_same_v<VIP_VI_HANDLE, VIP_PVOID>);
static_assert(std::is_same_v<VIP_CQ_HANDLE, VIP_PVOID>);
static_assert(std::is_same_v<VIP_PROTECTION_HANDLE, VIP_PVOID>);
static_assert(std::is_same_v<VIP_CONN_HANDLE, VIP_PVOID>);
static_assert(std::is_same_v<VIP_MEM_HANDLE, VIP_UINT32>);
static_assert(std::is_same_v<VIP_RELIABILITY_LEVEL, VIP_USHORT>);
static_assert(VIP_TRUE == 1 && VIP_FALSE == 0);
static_assert(std::is_same_v<decltype(VIP_INFINITE), VIP_ULONG> && VIP_INFINITE + 1 == 0);

// Network address.
static_assert(sizeof(VIP_NET_ADDRESS) == 6);
static_assert(offsetof(VIP_NET_ADDRESS, HostAddressLen) == 0);
static_assert(offsetof(VIP_NET_ADDRESS, DiscriminatorLen) == 2);
static_assert(offsetof(VIP_NET_ADDRESS, HostAddress) == 4);

// Descriptor.
static_assert(VIP_DESCRIPTOR_ALIGNMENT == 64);
static_assert(sizeof(VIP_PVOID64) == 8);
static_assert(offsetof(VIP_PVOID64, AddressBits) == 0 && offsetof(VIP_PVOID64, Address) == 0);
static_assert(sizeof(VIP_CONTROL_SEGMENT) == 32);
static_assert(offsetof(VIP_CONTROL_SEGMENT, Next) == 0);
static_assert(offsetof(VIP_CONTROL_SEGMENT, NextHandle) == 8);
static_assert(offsetof(VIP_CONTROL_SEGMENT, SegCount) == 12);
static_assert(offsetof(VIP_CONTROL_SEGMENT, Control) == 14);
static_assert(offsetof(VIP_CONTROL_SEGMENT, Reserved) == 16);
static_assert(offsetof(VIP_CONTROL_SEGMENT, ImmediateData) == 20);
static_assert(offsetof(VIP_CONTROL_SEGMENT, Length) == 24);
static_assert(offsetof(VIP_CONTROL_SEGMENT, Status) == 28);
static_assert(sizeof(VIP_CONTROL_SEGMENT::SegCount) == 2);
static_assert(sizeof(VIP_CONTROL_SEGMENT::Control) == 2);
static_assert(sizeof(VIP_ADDRESS_SEGMENT) == 16);
static_assert(offsetof(VIP_ADDRESS_SEGMENT, Data) == 0);
static_assert(offsetof(VIP_ADDRESS_SEGMENT, Handle) == 8);
static_assert(offsetof(VIP_ADDRESS_SEGMENT, Reserved) == 12);
static_assert(sizeof(VIP_DATA_SEGMENT) == 16);
static_assert(offsetof(VIP_DATA_SEGMENT, Data) == 0);
static_assert(offsetof(VIP_DATA_SEGMENT, Handle) == 8);
static_assert(offsetof(VIP_DATA_SEGMENT, Length) == 12);
static_assert(sizeof(VIP_DESCRIPTOR_SEGMENT) == 16);
static_assert(sizeof(VIP_DESCRIPTOR) == 64);
static_assert(offsetof(VIP_DESCRIPTOR, CS) == 0 && offsetof(VIP_DESCRIPTOR, Control) == 0);
static_assert(offsetof(VIP_DESCRIPTOR, DS) == 32 && offsetof(VIP_DESCRIPTOR, Data) == 32);
static_assert(offsetof(VIP_DESCRIPTOR, DS[1]) == 48 && offsetof(VIP_DESCRIPTOR, Data[1]) == 48);
static_assert(std::is_same_v<decltype(VIP_DESCRIPTOR::CS), VIP_CONTROL_SEGMENT>);
static_assert(std::is_same_v<decltype(VIP_DESCRIPTOR::Control), VIP_CONTROL_SEGMENT>);
static_assert(std::is_same_v<decltype(VIP_DESCRIPTOR::DS), VIP_DESCRIPTOR_SEGMENT[2]>);
static_assert(
    std::is_same_v<std::remove_extent_t<decltype(VIP_DESCRIPTOR::Data)>, VIP_DATA_SEGMENT>);

// Bits of Control and Status.
static_assert(VIP_CONTROL_OP_SENDRECV == 0x0 && VIP_CONTROL_OP_RDMAWRITE == 0x1);
static_assert(VIP_CONTROL_OP_RDMAREAD == 0x2 && VIP_CONTROL_OP_RESERVED == 0x3);
static_assert(VIP_CONTROL_OP_MASK == 0x3);
static_assert(VIP_CONTROL_IMMEDIATE == 0x4 && VIP_CONTROL_QFENCE == 0x8);
static_assert(VIP_CONTROL_RESERVED == 0xFFF0);
static_assert((VIP_CONTROL_OP_MASK | VIP_CONTROL_IMMEDIATE | VIP_CONTROL_QFENCE |
               VIP_CONTROL_RESERVED) == 0xFFFF);
static_assert(VIP_STATUS_DONE == 0x1 && VIP_STATUS_FORMAT_ERROR == 0x2);
static_assert(VIP_STATUS_PROTECTION_ERROR == 0x4 && VIP_STATUS_LENGTH_ERROR == 0x8);
static_assert(VIP_STATUS_PARTIAL_ERROR == 0x10 && VIP_STATUS_DESC_FLUSHED_ERROR == 0x20);
static_assert(VIP_STATUS_TRANSPORT_ERROR == 0x40 && VIP_STATUS_RDMA_PROT_ERROR == 0x80);
static_assert(VIP_STATUS_REMOTE_DESC_ERROR == 0x100 && VIP_STATUS_ERROR_MASK == 0x1FE);
static_assert(VIP_STATUS_OP_SEND == 0 && VIP_STATUS_OP_RECEIVE == 0x10000);
static_assert(VIP_STATUS_OP_RDMA_WRITE == 0x20000);
static_assert(VIP_STATUS_OP_REMOTE_RDMA_WRITE == 0x30000);
static_assert(VIP_STATUS_OP_RDMA_READ == 0x40000 && VIP_STATUS_OP_MASK == 0x70000);
static_assert(VIP_STATUS_IMMEDIATE == 0x80000 && VIP_STATUS_RESERVED == 0xFFF0FE00);
static_assert((VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK | VIP_STATUS_OP_MASK | VIP_STATUS_IMMEDIATE |
               VIP_STATUS_RESERVED) == 0xFFFFFFFF);

static_assert(VIP_SERVICE_UNRELIABLE == 0x01);
static_assert(VIP_SERVICE_RELIABLE_DELIVERY == 0x02);
static_assert(VIP_SERVICE_RELIABLE_RECEPTION == 0x04);
static_assert(VIP_SMI_AUTODISCOVERY == 1);
static_assert(std::is_same_v<decltype(VIP_SMI_AUTODISCOVERY), VIP_ULONG>);

// Enumerations.
static_assert(VIP_SUCCESS == 0 && VIP_NOT_DONE == 1 && VIP_INVALID_PARAMETER == 2);
static_assert(VIP_ERROR_RESOURCE == 3 && VIP_TIMEOUT == 4 && VIP_REJECT == 5);
static_assert(VIP_INVALID_RELIABILITY_LEVEL == 6 && VIP_INVALID_MTU == 7);
static_assert(VIP_INVALID_QOS == 8 && VIP_INVALID_PTAG == 9 && VIP_INVALID_RDMAREAD == 10);
static_assert(VIP_DESCRIPTOR_ERROR == 11 && VIP_INVALID_STATE == 12);
static_assert(VIP_ERROR_NAMESERVICE == 13 && VIP_NO_MATCH == 14 && VIP_NOT_REACHABLE == 15);
static_assert(VIP_ERROR_NOT_SUPPORTED == 16 && VIP_ERROR == VIP_DESCRIPTOR_ERROR);
static_assert(VIP_STATE_IDLE == 0 && VIP_STATE_CONNECTED == 1);
static_assert(VIP_STATE_CONNECT_PENDING == 2 && VIP_STATE_ERROR == 3);
static_assert(VIP_RESOURCE_NIC == 0 && VIP_RESOURCE_VI == 1);
static_assert(VIP_RESOURCE_CQ == 2 && VIP_RESOURCE_DESCRIPTOR == 3);
static_assert(VIP_ERROR_POST_DESC == 0 && VIP_ERROR_CONN_LOST == 1);
static_assert(VIP_ERROR_RECVQ_EMPTY == 2 && VIP_ERROR_VI_OVERRUN == 3);
static_assert(VIP_ERROR_RDMAW_PROT == 4 && VIP_ERROR_RDMAW_DATA == 5);
static_assert(VIP_ERROR_RDMAW_ABORT == 6 && VIP_ERROR_RDMAR_PROT == 7);
static_assert(VIP_ERROR_COMP_PROT == 8 && VIP_ERROR_RDMA_TRANSPORT == 9);
static_assert(VIP_ERROR_CATASTROPHIC == 10);

// Structures that hold pointers and longs: the LP64 layout.
static_assert(sizeof(void*) != 8 || sizeof(VIP_NIC_ATTRIBUTES) == 200);
static_assert(sizeof(void*) != 8 || sizeof(VIP_VI_ATTRIBUTES) == 40);
static_assert(sizeof(void*) != 8 || sizeof(VIP_MEM_ATTRIBUTES) == 16);
static_assert(sizeof(void*) != 8 || sizeof(VIP_ERROR_DESCRIPTOR) == 48);
static_assert(sizeof(void*) != 8 || sizeof(VIP_AUTODISCOVERY_LIST) == 24);

template <std::size_t Actual, std::size_t Lp64>
constexpr bool at = sizeof(void*) != 8 || Actual == Lp64;

static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, Name), 0>);
static_assert(sizeof(VIP_NIC_ATTRIBUTES::Name) == 64);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, HardwareVersion), 64>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, ProviderVersion), 72>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, NicAddressLen), 80>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, LocalNicAddress), 88>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, ThreadSafe), 96>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen), 100>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxRegisterBytes), 104>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxRegisterRegions), 112>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxRegisterBlockBytes), 120>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxVI), 128>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxDescriptorsPerQueue), 136>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxSegmentsPerDesc), 144>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxCQ), 152>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxCQEntries), 160>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxTransferSize), 168>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, NativeMTU), 176>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, MaxPtags), 184>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, ReliabilityLevelSupport), 192>);
static_assert(at<offsetof(VIP_NIC_ATTRIBUTES, RDMAReadSupport), 194>);
static_assert(at<offsetof(VIP_VI_ATTRIBUTES, ReliabilityLevel), 0>);
static_assert(at<offsetof(VIP_VI_ATTRIBUTES, MaxTransferSize), 8>);
static_assert(at<offsetof(VIP_VI_ATTRIBUTES, QoS), 16>);
static_assert(at<offsetof(VIP_VI_ATTRIBUTES, Ptag), 24>);
static_assert(at<offsetof(VIP_VI_ATTRIBUTES, EnableRdmaWrite), 32>);
static_assert(at<offsetof(VIP_VI_ATTRIBUTES, EnableRdmaRead), 36>);
static_assert(at<offsetof(VIP_MEM_ATTRIBUTES, Ptag), 0>);
static_assert(at<offsetof(VIP_MEM_ATTRIBUTES, EnableRdmaWrite), 8>);
static_assert(at<offsetof(VIP_MEM_ATTRIBUTES, EnableRdmaRead), 12>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, NicHandle), 0>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, ViHandle), 8>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, CQHandle), 16>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, DescriptorPtr), 24>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, OpCode), 32>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, ResourceCode), 40>);
static_assert(at<offsetof(VIP_ERROR_DESCRIPTOR, ErrorCode), 44>);
static_assert(at<offsetof(VIP_AUTODISCOVERY_LIST, NumberOfHops), 0>);
static_assert(at<offsetof(VIP_AUTODISCOVERY_LIST, ADAddrArray), 8>);
static_assert(at<offsetof(VIP_AUTODISCOVERY_LIST, NumAdAddrs), 16>);

// What both C objects write, as bytes.
struct Fields {
    std::uint64_t next;
    std::uint32_t next_handle;
    std::uint16_t segment_count;
    std::uint16_t control;
    std::uint32_t reserved;
    std::uint32_t immediate_data;
    std::uint32_t length;
    std::uint32_t status;
    std::uint64_t data0;
    std::uint32_t handle0;
    std::uint32_t last0;
    std::uint64_t data1;
    std::uint32_t handle1;
    std::uint32_t last1;
};
static_assert(sizeof(Fields) == 64);

void expect_filled(const VIP_DESCRIPTOR& descriptor) {
    Fields fields{};
    std::memcpy(&fields, &descriptor, sizeof fields);
    EXPECT_EQ(fields.next, 0x1111u);
    EXPECT_EQ(fields.next_handle, 0x22222222u);
    EXPECT_EQ(fields.segment_count, 0x3333u);
    EXPECT_EQ(fields.control, 0x4444u);
    EXPECT_EQ(fields.reserved, 0x55555555u);
    EXPECT_EQ(fields.immediate_data, 0x66666666u);
    EXPECT_EQ(fields.length, 0x77777777u);
    EXPECT_EQ(fields.status, 0x08888888u);
    EXPECT_EQ(fields.data0, 0x9999u);
    EXPECT_EQ(fields.handle0, 0x0AAAAAAAu);
    EXPECT_EQ(fields.last0, 0x0BBBBBBBu);
    EXPECT_EQ(fields.data1, 0xCCCCu);
    EXPECT_EQ(fields.handle1, 0x0DDDDDDDu);
    EXPECT_EQ(fields.last1, 0x0EEEEEEEu);
}

TEST(ViplLayout, DescriptorFilledByC89InTheCsDialect) {
    VIP_DESCRIPTOR descriptor{};
    c89_fill_in_cs_dialect(&descriptor);
    expect_filled(descriptor);
}

TEST(ViplLayout, DescriptorFilledByC89InTheControlDialect) {
    VIP_DESCRIPTOR descriptor{};
    c89_fill_in_control_dialect(&descriptor);
    expect_filled(descriptor);
}

TEST(ViplLayout, TheDiscriminatorFollowsTheHostAddress) {
    alignas(VIP_NET_ADDRESS) unsigned char bytes[4 + 6 + 2] = {};
    auto* address = reinterpret_cast<VIP_NET_ADDRESS*>(bytes);
    address->HostAddressLen = 6;
    address->DiscriminatorLen = 2;
    EXPECT_EQ(static_cast<void*>(address->HostAddress + address->HostAddressLen), bytes + 10);
}

}  // namespace
