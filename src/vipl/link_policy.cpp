// SPDX-License-Identifier: BSD-3-Clause
// VipxSetLinkPolicy.
#include "ua/nic.hpp"
#include "ua/tables.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"
#include "vipx.h"

using namespace via;
using vipl::failed;

extern "C" {

VIP_RETURN VipxSetLinkPolicy(VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
                             const VIP_CHAR* Policy) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipxSetLinkPolicy");
        if (Policy == nullptr)
            return failed("VipxSetLinkPolicy", VIP_INVALID_PARAMETER, "Policy is NULL");
        if (ViHandle == nullptr) {
            auto done = nic->device().set_link_policy(Policy, 0);
            return done ? VIP_SUCCESS : failed("VipxSetLinkPolicy", done.error());
        }
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipxSetLinkPolicy");
        if (vi->nic() != nic)
            return failed("VipxSetLinkPolicy", VIP_INVALID_PARAMETER,
                          "the VI belongs to another NIC handle");
        auto done = vi->set_link_policy(vipl::bits(ViHandle), Policy);
        return done ? VIP_SUCCESS : failed("VipxSetLinkPolicy", done.error());
    });
}

}  // extern "C"
