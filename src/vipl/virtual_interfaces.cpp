// SPDX-License-Identifier: BSD-3-Clause
// VipCreateVi, VipDestroyVi, VipQueryVi, VipSetViAttributes.
#include "ua/nic.hpp"
#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"

using namespace via;
using vipl::failed;

extern "C" {

VIP_RETURN VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES* ViAttribs,
                       VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
                       VIP_VI_HANDLE* ViHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipCreateVi");
        if (ViAttribs == nullptr || ViHandle == nullptr)
            return failed("VipCreateVi", VIP_INVALID_PARAMETER, "a pointer argument is NULL");
        ua::CompletionQueue* send_cq = nullptr;
        ua::CompletionQueue* receive_cq = nullptr;
        if (SendCQHandle != nullptr && (send_cq = ua::cq_table().find(SendCQHandle)) == nullptr)
            return vipl::bad_cq("VipCreateVi");
        if (RecvCQHandle != nullptr && (receive_cq = ua::cq_table().find(RecvCQHandle)) == nullptr)
            return vipl::bad_cq("VipCreateVi");
        if ((send_cq != nullptr && send_cq->nic() != nic) ||
            (receive_cq != nullptr && receive_cq->nic() != nic))
            return failed("VipCreateVi", VIP_INVALID_PARAMETER,
                          "a completion queue belongs to another NIC handle");
        auto attributes = vipl::to_endpoint_attributes(*nic, *ViAttribs);
        if (!attributes) return failed("VipCreateVi", attributes.error());
        auto handle = nic->create_vi(attributes.value(), send_cq, receive_cq);
        if (!handle) return failed("VipCreateVi", handle.error());
        *ViHandle = reinterpret_cast<VIP_VI_HANDLE>(handle.value());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipDestroyVi(VIP_VI_HANDLE ViHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipDestroyVi");
        auto done = vi->nic()->destroy_vi(*vi, vipl::bits(ViHandle));
        if (!done) return failed("VipDestroyVi", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE* State, VIP_VI_ATTRIBUTES* ViAttribs,
                      VIP_BOOLEAN* ViSendQEmpty, VIP_BOOLEAN* ViRecvQEmpty) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipQueryVi");
        if (State == nullptr || ViAttribs == nullptr || ViSendQEmpty == nullptr ||
            ViRecvQEmpty == nullptr)
            return failed("VipQueryVi", VIP_INVALID_PARAMETER, "a pointer argument is NULL");
        ua::ViSnapshot snapshot;
        if (!vi->snapshot(vipl::bits(ViHandle), snapshot)) return vipl::bad_vi("VipQueryVi");
        *State = static_cast<VIP_VI_STATE>(snapshot.state);
        vipl::from_endpoint_attributes(snapshot.attributes, true, ViAttribs);
        *ViSendQEmpty = snapshot.send_empty ? VIP_TRUE : VIP_FALSE;
        *ViRecvQEmpty = snapshot.receive_empty ? VIP_TRUE : VIP_FALSE;
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES* ViAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipSetViAttributes");
        if (ViAttribs == nullptr)
            return failed("VipSetViAttributes", VIP_INVALID_PARAMETER, "ViAttribs is NULL");
        const auto nic = vi->nic();
        ua::ViSnapshot before;
        if (!vi->snapshot(vipl::bits(ViHandle), before)) return vipl::bad_vi("VipSetViAttributes");
        if (before.state != ua::ViState::Idle)
            return failed("VipSetViAttributes", VIP_INVALID_STATE,
                          "a VI's attributes can only be changed while it is Idle");
        auto attributes = vipl::to_endpoint_attributes(*nic, *ViAttribs);
        if (!attributes) return failed("VipSetViAttributes", attributes.error());
        if (!nic->use_tag(attributes.value().tag))
            return failed("VipSetViAttributes", VIP_INVALID_PTAG, "there is no such tag");
        auto done = vi->change_attributes(vipl::bits(ViHandle), attributes.value());
        nic->release_tag(done ? before.attributes.tag : attributes.value().tag);
        if (!done) return failed("VipSetViAttributes", done.error());
        return VIP_SUCCESS;
    });
}

}  // extern "C"
