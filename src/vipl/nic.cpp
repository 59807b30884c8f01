// SPDX-License-Identifier: BSD-3-Clause
// VipOpenNic, VipCloseNic, VipQueryNic, protection tags and the error callback.
#include "ua/nic.hpp"

#include <algorithm>
#include <cstring>

#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"

using namespace via;
using vipl::failed;

extern "C" {

VIP_RETURN VipOpenNic(const VIP_CHAR* DeviceName, VIP_NIC_HANDLE* NicHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        if (DeviceName == nullptr || NicHandle == nullptr)
            return failed("VipOpenNic", VIP_INVALID_PARAMETER, "a pointer argument is NULL");
        auto nic = ua::Nic::open(DeviceName);
        if (!nic) return failed("VipOpenNic", nic.error());
        *NicHandle = nic.value()->handle();
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipCloseNic");
        nic->close();
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES* NicAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipQueryNic");
        if (NicAttribs == nullptr)
            return failed("VipQueryNic", VIP_INVALID_PARAMETER, "NicAttribs is NULL");
        const na::NicAttributes& device = nic->device().attributes();
        VIP_NIC_ATTRIBUTES result;
        std::memset(&result, 0, sizeof result);
        device.name.copy(result.Name, sizeof result.Name - 1);
        result.HardwareVersion = device.hardware_version;
        result.ProviderVersion = device.provider_version;
        result.NicAddressLen = static_cast<VIP_UINT16>(device.address.size());
        result.LocalNicAddress = device.address.data();
        result.ThreadSafe = VIP_TRUE;
        result.MaxDiscriminatorLen = ka::max_discriminator_bytes;
        result.MaxRegisterBytes = ~VIP_ULONG{0} >> 17;
        result.MaxRegisterRegions = ka::rmmt_entries - 2;
        result.MaxRegisterBlockBytes = ~VIP_ULONG{0} >> 17;
        result.MaxVI = device.max_vis;
        result.MaxDescriptorsPerQueue = nic->max_descriptors();
        result.MaxSegmentsPerDesc = device.max_segments;
        result.MaxCQ = 32768;
        result.MaxCQEntries = 1U << 20;
        result.MaxTransferSize = device.max_transfer_bytes;
        result.NativeMTU = device.native_mtu;
        result.MaxPtags = 65536;
        result.ReliabilityLevelSupport =
            static_cast<VIP_RELIABILITY_LEVEL>(device.reliability_levels);
        result.RDMAReadSupport = static_cast<VIP_RELIABILITY_LEVEL>(device.rdma_read_levels);
        *NicAttribs = result;
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE* Ptag) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipCreatePtag");
        if (Ptag == nullptr) return failed("VipCreatePtag", VIP_INVALID_PARAMETER, "Ptag is NULL");
        auto tag = nic->create_tag();
        if (!tag) return failed("VipCreatePtag", tag.error());
        *Ptag = vipl::from_tag(tag.value());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipDestroyPtag");
        auto done = nic->destroy_tag(vipl::to_tag(Ptag));
        if (!done) return failed("VipDestroyPtag", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
                            void (*Handler)(VIP_PVOID, VIP_ERROR_DESCRIPTOR*)) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipErrorCallback");
        nic->set_error_handler(Handler, Context);
        return VIP_SUCCESS;
    });
}

}  // extern "C"
