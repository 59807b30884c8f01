// SPDX-License-Identifier: BSD-3-Clause
// Autodiscovery and name service.
#include <algorithm>
#include <cstring>
#include <string>

#include "ua/name_service.hpp"
#include "ua/nic.hpp"
#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"

using namespace via;
using vipl::failed;

extern "C" {

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                        VIP_PVOID SysManInfo) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipQuerySystemManagementInfo");
        if (InfoType != VIP_SMI_AUTODISCOVERY)
            return failed("VipQuerySystemManagementInfo", VIP_ERROR_NOT_SUPPORTED,
                          "only VIP_SMI_AUTODISCOVERY is defined");
        auto* list = static_cast<VIP_AUTODISCOVERY_LIST*>(SysManInfo);
        if (list == nullptr || (list->NumAdAddrs != 0 && list->ADAddrArray == nullptr))
            return failed("VipQuerySystemManagementInfo", VIP_INVALID_PARAMETER,
                          "SysManInfo or its array is NULL");
        // On this device there is one host to find: this one.
        const auto& own = nic->device().attributes().address;
        if (list->NumAdAddrs == 0) return VIP_SUCCESS;
        VIP_NET_ADDRESS* entry = list->ADAddrArray[0];
        if (entry == nullptr)
            return failed("VipQuerySystemManagementInfo", VIP_INVALID_PARAMETER,
                          "the first address pointer is NULL");
        entry->HostAddressLen = static_cast<VIP_UINT16>(own.size());
        entry->DiscriminatorLen = 0;
        VIP_UINT8* bytes = entry->HostAddress;
        std::memcpy(bytes, own.data(), own.size());
        list->NumAdAddrs = 1;
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo) {
    (void)NSInitInfo;  // nothing to configure: every consumer passes NULL
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        return ua::Nic::find(NicHandle) ? VIP_SUCCESS : vipl::bad_nic("VipNSInit");
    });
}

VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR* Name, VIP_NET_ADDRESS* Address,
                              VIP_ULONG NameIndex) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipNSGetHostByName");
        if (Name == nullptr || Address == nullptr)
            return failed("VipNSGetHostByName", VIP_INVALID_PARAMETER,
                          "a pointer argument is NULL");
        base::Result<ua::HostAddress> found = ua::HostAddress{};
        if (const auto known = nic->device().find_host(Name); known && NameIndex == 0)
            found = *known;
        else
            found = ua::NameService(nic->device().attributes().address).address_of(Name, NameIndex);
        if (!found) return failed("VipNSGetHostByName", found.error());
        Address->HostAddressLen = static_cast<VIP_UINT16>(found.value().size());
        Address->DiscriminatorLen = 0;
        VIP_UINT8* bytes = Address->HostAddress;
        std::memcpy(bytes, found.value().data(), found.value().size());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS* Address, VIP_CHAR* Name,
                              VIP_ULONG* NameLen) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipNSGetHostByAddr");
        if (Address == nullptr || Name == nullptr || NameLen == nullptr || *NameLen == 0)
            return failed("VipNSGetHostByAddr", VIP_INVALID_PARAMETER,
                          "a pointer argument is NULL or the name's buffer is empty");
        const ua::HostAddress own = nic->device().attributes().address;
        if (Address->HostAddressLen == 0 || Address->HostAddressLen > ka::max_host_address_bytes)
            return failed(
                "VipNSGetHostByAddr", VIP_INVALID_PARAMETER,
                "a host address of this NIC has " + std::to_string(own.size()) + " bytes");
        const ua::HostAddress wanted(
            std::span<const std::uint8_t>(Address->HostAddress, Address->HostAddressLen));
        const ua::NameService names(own);
        auto found = names.name_of(wanted);
        if (!found) return failed("VipNSGetHostByAddr", found.error());
        if (found.value().size() + 1 > *NameLen)
            return failed("VipNSGetHostByAddr", VIP_ERROR_RESOURCE,
                          "the name has " + std::to_string(found.value().size()) +
                              " characters and does not fit into the buffer");
        std::memcpy(Name, found.value().c_str(), found.value().size() + 1);
        *NameLen = found.value().size();
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE NicHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        return ua::Nic::find(NicHandle) ? VIP_SUCCESS : vipl::bad_nic("VipNSShutdown");
    });
}

}  // extern "C"
