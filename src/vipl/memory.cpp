// SPDX-License-Identifier: BSD-3-Clause
// Registered memory, and kmem memory of the extension header.
#include "ua/nic.hpp"
#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"
#include "vipx.h"

using namespace via;
using vipl::failed;

extern "C" {

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
                          VIP_MEM_ATTRIBUTES* MemAttribs, VIP_MEM_HANDLE* MemoryHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipRegisterMem");
        if (VirtualAddress == nullptr || MemoryHandle == nullptr || Length == 0 ||
            vipl::bits(VirtualAddress) + Length < vipl::bits(VirtualAddress))
            return failed("VipRegisterMem", VIP_INVALID_PARAMETER,
                          "the address or the handle pointer is NULL, or the length is 0 or runs "
                          "past the end of the address space");
        auto attributes = vipl::to_memory_attributes(*nic, MemAttribs);
        if (!attributes) return failed("VipRegisterMem", attributes.error());
        auto handle =
            nic->register_memory(VirtualAddress, Length, attributes.value(), ua::Pages::Huge);
        if (!handle) return failed("VipRegisterMem", handle.error());
        *MemoryHandle = handle.value();
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
                            VIP_MEM_HANDLE MemoryHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipDeregisterMem");
        auto done = nic->deregister_memory(VirtualAddress, MemoryHandle);
        if (!done) return failed("VipDeregisterMem", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address,
                               VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES* MemAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipSetMemAttributes");
        if (MemAttribs == nullptr)
            return failed("VipSetMemAttributes", VIP_INVALID_PARAMETER, "MemAttribs is NULL");
        auto attributes = vipl::to_memory_attributes(*nic, MemAttribs);
        if (!attributes) return failed("VipSetMemAttributes", attributes.error());
        auto done = nic->change_memory(Address, MemHandle, attributes.value());
        if (!done) return failed("VipSetMemAttributes", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                       VIP_MEM_ATTRIBUTES* MemAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipQueryMem");
        if (MemAttribs == nullptr)
            return failed("VipQueryMem", VIP_INVALID_PARAMETER, "MemAttribs is NULL");
        auto found = nic->query_memory(Address, MemHandle);
        if (!found) return failed("VipQueryMem", found.error());
        const ua::MemoryAttributes& attributes = found.value();
        MemAttribs->Ptag = vipl::from_tag(attributes.tag);
        MemAttribs->EnableRdmaWrite =
            (attributes.rights & ka::right_rdma_write) != 0 ? VIP_TRUE : VIP_FALSE;
        MemAttribs->EnableRdmaRead =
            (attributes.rights & ka::right_rdma_read) != 0 ? VIP_TRUE : VIP_FALSE;
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipxAllocMem(VIP_NIC_HANDLE NicHandle, VIP_ULONG Length, VIP_MEM_ATTRIBUTES* MemAttribs,
                        VIP_PVOID* Address, VIP_MEM_HANDLE* MemoryHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipxAllocMem");
        if (Address == nullptr || MemoryHandle == nullptr || Length == 0)
            return failed("VipxAllocMem", VIP_INVALID_PARAMETER,
                          "a pointer argument is NULL or the length is 0");
        auto attributes = vipl::to_memory_attributes(*nic, MemAttribs);
        if (!attributes) return failed("VipxAllocMem", attributes.error());
        auto made = nic->allocate(Length, attributes.value());
        if (!made) return failed("VipxAllocMem", made.error());
        *Address = made.value().address;
        *MemoryHandle = made.value().handle;
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipxFreeMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemoryHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipxFreeMem");
        auto done = nic->free(Address, MemoryHandle);
        if (!done) return failed("VipxFreeMem", done.error());
        return VIP_SUCCESS;
    });
}

const VIP_CHAR* VipxErrorText(void) {
    return vipl::error_text();
}
const VIP_CHAR* VipxReturnName(VIP_RETURN code) {
    return vipl::return_name(code);
}

}  // extern "C"
