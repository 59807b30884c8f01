// SPDX-License-Identifier: BSD-3-Clause
// Client/server and peer-to-peer connection.
#include "base/settings.hpp"
#include "ua/nic.hpp"
#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"

using namespace via;
using vipl::failed;

extern "C" {

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS* LocalAddr, VIP_ULONG Timeout,
                          VIP_NET_ADDRESS* RemoteAddr, VIP_VI_ATTRIBUTES* RemoteViAttribs,
                          VIP_CONN_HANDLE* ConnHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipConnectWait");
        if (RemoteAddr == nullptr || RemoteViAttribs == nullptr || ConnHandle == nullptr)
            return failed("VipConnectWait", VIP_INVALID_PARAMETER, "a pointer argument is NULL");
        auto local = vipl::to_address(LocalAddr);
        if (!local) return failed("VipConnectWait", local.error());
        ka::IncomingRequest request;
        auto handle = nic->connect_wait(local.value(), vipl::to_deadline(Timeout), request);
        nic->process().publish_rmmt_epoch();
        if (!handle) return failed("VipConnectWait", handle.error());
        vipl::from_address(request.remote, RemoteAddr);
        vipl::from_endpoint_attributes(request.remote_attributes, false, RemoteViAttribs);
        *ConnHandle = handle.value();
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ka::IncomingRequest request;
        const auto nic = ua::Nic::find_request(ConnHandle, request);
        if (!nic)
            return failed("VipConnectAccept", VIP_INVALID_PARAMETER,
                          "the connection handle is not one that VipConnectWait gave and that was "
                          "not answered yet");
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipConnectAccept");
        if (vi->nic() != nic)
            return failed("VipConnectAccept", VIP_INVALID_PARAMETER,
                          "the VI belongs to another NIC handle than the request");
        const auto deadline = base::Deadline::after_milliseconds(
            base::Settings::get().number("VIA_AGENT_TIMEOUT_MS"));
        auto done = vi->connect_accept(vipl::bits(ViHandle), request, deadline);
        if (done) {
            nic->drop_request(ConnHandle);
            return VIP_SUCCESS;
        }
        // After these the server may change its VI and try again, or reject.
        const base::Code code = done.error().code;
        const bool still_pending =
            code == base::Code::ReliabilityMismatch || code == base::Code::TransferSizeMismatch ||
            code == base::Code::QosMismatch || code == base::Code::InvalidState ||
            code == base::Code::InvalidArgument;
        if (!still_pending) nic->drop_request(ConnHandle);
        return failed("VipConnectAccept", done.error());
    });
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ka::IncomingRequest request;
        const auto nic = ua::Nic::find_request(ConnHandle, request);
        if (!nic)
            return failed("VipConnectReject", VIP_INVALID_PARAMETER,
                          "the connection handle is not one that VipConnectWait gave and that was "
                          "not answered yet");
        nic->drop_request(ConnHandle);
        // A requester that gave up meanwhile needs no answer.
        auto done = nic->device().connect_reject(request.request);
        if (!done && done.error().code != base::Code::Timeout &&
            done.error().code != base::Code::NotFound &&
            done.error().code != base::Code::InvalidArgument)
            return failed("VipConnectReject", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS* LocalAddr,
                             VIP_NET_ADDRESS* RemoteAddr, VIP_ULONG Timeout,
                             VIP_VI_ATTRIBUTES* RemoteViAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipConnectRequest");
        if (Timeout == 0 || RemoteViAttribs == nullptr)
            return failed("VipConnectRequest", VIP_INVALID_PARAMETER,
                          "a timeout of 0 is not allowed, nor is a NULL pointer");
        auto local = vipl::to_address(LocalAddr);
        if (!local) return failed("VipConnectRequest", local.error());
        auto remote = vipl::to_address(RemoteAddr);
        if (!remote) return failed("VipConnectRequest", remote.error());
        auto done = vi->connect_request(vipl::bits(ViHandle), local.value(), remote.value(),
                                        vipl::to_deadline(Timeout));
        if (!done) return failed("VipConnectRequest", done.error());
        vipl::from_endpoint_attributes(done.value(), false, RemoteViAttribs);
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr || !vi->disconnect(vipl::bits(ViHandle)))
            return vipl::bad_vi("VipDisconnect");
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS* LocalAddr,
                                 VIP_NET_ADDRESS* RemoteAddr, VIP_ULONG Timeout) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipConnectPeerRequest");
        auto local = vipl::to_address(LocalAddr);
        if (!local) return failed("VipConnectPeerRequest", local.error());
        auto remote = vipl::to_address(RemoteAddr);
        if (!remote) return failed("VipConnectPeerRequest", remote.error());
        auto done = vi->peer_request(vipl::bits(ViHandle), local.value(), remote.value(),
                                     vipl::to_deadline(Timeout));
        if (!done) return failed("VipConnectPeerRequest", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES* RemoteViAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipConnectPeerDone");
        if (RemoteViAttribs == nullptr)
            return failed("VipConnectPeerDone", VIP_INVALID_PARAMETER, "RemoteViAttribs is NULL");
        auto done = vi->peer_done(vipl::bits(ViHandle));
        if (!done) return VIP_NOT_DONE;
        if (!*done) return failed("VipConnectPeerDone", done->error());
        vipl::from_endpoint_attributes(done->value(), false, RemoteViAttribs);
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES* RemoteViAttribs) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
        if (vi == nullptr) return vipl::bad_vi("VipConnectPeerWait");
        if (RemoteViAttribs == nullptr)
            return failed("VipConnectPeerWait", VIP_INVALID_PARAMETER, "RemoteViAttribs is NULL");
        auto done = vi->peer_wait(vipl::bits(ViHandle));
        if (!done) return failed("VipConnectPeerWait", done.error());
        vipl::from_endpoint_attributes(done.value(), false, RemoteViAttribs);
        return VIP_SUCCESS;
    });
}

}  // extern "C"
