/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vipl.h seen by an old C compiler. Compiled with -std=c89 -pedantic-errors, once in each
 * descriptor dialect: with VIPL095 the parts are called CS and DS, without it Control and Data.
 * Each object exports a function that fills a descriptor, whose bytes layout_test.cpp looks at.
 */
#include <stddef.h>
#include <vipl.h>
#include <vipx.h>

#define CHECK(name, condition) typedef char check_##name[(condition) ? 1 : -1]
#define CHECK_SIZE(type, size) CHECK(size_of_##type, sizeof(type) == (size))
#define CHECK_OFFSET(type, member, offset) \
    CHECK(offset_of_##type##_##member, offsetof(type, member) == (offset))

CHECK_SIZE(VIP_UINT64, 8);
CHECK_SIZE(VIP_UINT32, 4);
CHECK_SIZE(VIP_UINT16, 2);
CHECK_SIZE(VIP_UINT8, 1);
CHECK_SIZE(VIP_MEM_HANDLE, 4);
CHECK_SIZE(VIP_RELIABILITY_LEVEL, 2);
CHECK_SIZE(VIP_BOOLEAN, sizeof(int));
CHECK_SIZE(VIP_ULONG, sizeof(unsigned long));
CHECK(infinite_is_all_ones, VIP_INFINITE + 1 == 0);

CHECK_SIZE(VIP_NET_ADDRESS, 6);
CHECK_OFFSET(VIP_NET_ADDRESS, HostAddress, 4);
CHECK_SIZE(VIP_PVOID64, 8);
CHECK_SIZE(VIP_CONTROL_SEGMENT, 32);
CHECK_SIZE(VIP_ADDRESS_SEGMENT, 16);
CHECK_SIZE(VIP_DATA_SEGMENT, 16);
CHECK_SIZE(VIP_DESCRIPTOR_SEGMENT, 16);
CHECK_SIZE(VIP_DESCRIPTOR, 64);
CHECK_OFFSET(VIP_DESCRIPTOR, CS, 0);
CHECK_OFFSET(VIP_DESCRIPTOR, Control, 0);
CHECK_OFFSET(VIP_DESCRIPTOR, DS, 32);
CHECK_OFFSET(VIP_DESCRIPTOR, Data, 32);

/* Constants must work in the preprocessor as well, where old programs use them. */
#if VIP_CONTROL_OP_MASK != 3 || VIP_STATUS_ERROR_MASK != 0x1FE || VIP_DESCRIPTOR_ALIGNMENT != 64
#error "the constants of vipl.h are not plain numbers"
#endif

#ifdef VIPL095

void c89_fill_in_cs_dialect(VIP_DESCRIPTOR* descriptor);

void c89_fill_in_cs_dialect(VIP_DESCRIPTOR* descriptor) {
    descriptor->CS.Next.AddressBits = 0x1111;
    descriptor->CS.NextHandle = 0x22222222;
    descriptor->CS.SegCount = 0x3333;
    descriptor->CS.Control = 0x4444;
    descriptor->CS.Reserved = 0x55555555;
    descriptor->CS.ImmediateData = 0x66666666;
    descriptor->CS.Length = 0x77777777;
    descriptor->CS.Status = 0x08888888;
    descriptor->DS[0].Remote.Data.AddressBits = 0x9999;
    descriptor->DS[0].Remote.Handle = 0x0AAAAAAA;
    descriptor->DS[0].Remote.Reserved = 0x0BBBBBBB;
    descriptor->DS[1].Local.Data.AddressBits = 0xCCCC;
    descriptor->DS[1].Local.Handle = 0x0DDDDDDD;
    descriptor->DS[1].Local.Length = 0x0EEEEEEE;
}

#else

void c89_fill_in_control_dialect(VIP_DESCRIPTOR* descriptor);

void c89_fill_in_control_dialect(VIP_DESCRIPTOR* descriptor) {
    descriptor->Control.Next.AddressBits = 0x1111;
    descriptor->Control.NextHandle = 0x22222222;
    descriptor->Control.SegCount = 0x3333;
    descriptor->Control.Control = 0x4444;
    descriptor->Control.Reserved = 0x55555555;
    descriptor->Control.ImmediateData = 0x66666666;
    descriptor->Control.Length = 0x77777777;
    descriptor->Control.Status = 0x08888888;
    descriptor->Data[0].Data.AddressBits = 0x9999;
    descriptor->Data[0].Handle = 0x0AAAAAAA;
    descriptor->Data[0].Length = 0x0BBBBBBB;
    descriptor->Data[1].Data.AddressBits = 0xCCCC;
    descriptor->Data[1].Handle = 0x0DDDDDDD;
    descriptor->Data[1].Length = 0x0EEEEEEE;
}

#endif
