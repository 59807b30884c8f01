// SPDX-License-Identifier: BSD-3-Clause
// Posting and completing descriptors: the hot path of the library.
#include "ua/hot_path.hpp"
#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"

using namespace via;
using vipl::failed;

namespace {

VIP_RETURN explain(const char* function, ua::PostOutcome outcome) noexcept {
    switch (outcome) {
        case ua::PostOutcome::Success:
            return VIP_SUCCESS;
        case ua::PostOutcome::BadDescriptor:
            return failed(function, VIP_INVALID_PARAMETER,
                          "the descriptor is NULL, not aligned to 64 bytes, or not inside the "
                          "registered region that its memory handle names (with the VI's tag)");
        case ua::PostOutcome::Overrun:
            return failed(function, VIP_ERROR_RESOURCE,
                          "the queue holds MaxDescriptorsPerQueue descriptors already "
                          "(VIA_MAX_DESCRIPTORS)");
        case ua::PostOutcome::StaleHandle:
            return vipl::bad_vi(function);
    }
    return VIP_INVALID_PARAMETER;
}

VIP_RETURN to_done_return(const char* function, ua::DoneOutcome outcome,
                          VIP_RETURN not_done) noexcept {
    switch (outcome) {
        case ua::DoneOutcome::Success:
            return VIP_SUCCESS;
        case ua::DoneOutcome::NotDone:
            return not_done;
        case ua::DoneOutcome::DescriptorError:
            return VIP_DESCRIPTOR_ERROR;
        case ua::DoneOutcome::StaleHandle:
            return vipl::bad_vi(function);
    }
    return VIP_INVALID_PARAMETER;
}

template <ua::Queue queue>
[[gnu::always_inline]] inline VIP_RETURN done(const char* function, VIP_VI_HANDLE handle,
                                              VIP_DESCRIPTOR** descriptor) noexcept {
    ua::VirtualInterface* vi = ua::vi_table().find(handle);
    if (vi == nullptr) [[unlikely]]
        return vipl::bad_vi(function);
    if (descriptor == nullptr) [[unlikely]]
        return failed(function, VIP_INVALID_PARAMETER, "DescriptorPtr is NULL");
    const ua::DoneOutcome outcome = queue == ua::Queue::Send
                                        ? vi->send_done(vipl::bits(handle), *descriptor)
                                        : vi->receive_done(vipl::bits(handle), *descriptor);
    if (outcome == ua::DoneOutcome::Success) [[likely]]
        return VIP_SUCCESS;
    return to_done_return(function, outcome, VIP_NOT_DONE);
}

VIP_RETURN wait(const char* function, VIP_VI_HANDLE handle, ua::Queue queue, VIP_ULONG timeout,
                VIP_DESCRIPTOR** descriptor) noexcept {
    return vipl::guarded(function, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(handle);
        if (vi == nullptr) return vipl::bad_vi(function);
        if (descriptor == nullptr)
            return failed(function, VIP_INVALID_PARAMETER, "DescriptorPtr is NULL");
        if (vi->has_completion_queue(queue))
            return failed(function, VIP_INVALID_PARAMETER,
                          "the queue has a completion queue: wait there with VipCQWait");
        VIP_DESCRIPTOR* taken = nullptr;
        const ua::DoneOutcome outcome =
            vi->wait(vipl::bits(handle), queue, vipl::to_deadline(timeout), taken);
        *descriptor = taken;
        if (outcome == ua::DoneOutcome::NotDone)
            return failed(function, VIP_TIMEOUT,
                          "no descriptor of the queue completed within the timeout");
        return to_done_return(function, outcome, VIP_TIMEOUT);
    });
}

VIP_RETURN notify(const char* function, VIP_VI_HANDLE handle, ua::Queue queue,
                  const ua::ViHandler& handler) noexcept {
    return vipl::guarded(function, [&]() -> VIP_RETURN {
        ua::VirtualInterface* vi = ua::vi_table().find(handle);
        if (vi == nullptr) return vipl::bad_vi(function);
        if (handler.call == nullptr)
            return failed(function, VIP_INVALID_PARAMETER, "Handler is NULL");
        if (vi->has_completion_queue(queue))
            return failed(function, VIP_INVALID_PARAMETER,
                          "the queue has a completion queue: use VipCQNotify");
        return to_done_return(function, vi->notify(vipl::bits(handle), queue, handler),
                              VIP_NOT_DONE);
    });
}

}  // namespace

extern "C" {

VIP_RETURN VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR* DescriptorPtr,
                       VIP_MEM_HANDLE MemoryHandle) {
    ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
    if (vi == nullptr) [[unlikely]]
        return vipl::bad_vi("VipPostSend");
    return vipl::guarded("VipPostSend", [&]() -> VIP_RETURN {
        const auto outcome = vi->post_send(vipl::bits(ViHandle), DescriptorPtr, MemoryHandle);
        return outcome == ua::PostOutcome::Success ? VIP_SUCCESS : explain("VipPostSend", outcome);
    });
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR* DescriptorPtr,
                       VIP_MEM_HANDLE MemoryHandle) {
    ua::VirtualInterface* vi = ua::vi_table().find(ViHandle);
    if (vi == nullptr) [[unlikely]]
        return vipl::bad_vi("VipPostRecv");
    return vipl::guarded("VipPostRecv", [&]() -> VIP_RETURN {
        const auto outcome = vi->post_receive(vipl::bits(ViHandle), DescriptorPtr, MemoryHandle);
        return outcome == ua::PostOutcome::Success ? VIP_SUCCESS : explain("VipPostRecv", outcome);
    });
}

VIP_RETURN VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR** DescriptorPtr) {
    return done<ua::Queue::Send>("VipSendDone", ViHandle, DescriptorPtr);
}

VIP_RETURN VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR** DescriptorPtr) {
    return done<ua::Queue::Receive>("VipRecvDone", ViHandle, DescriptorPtr);
}

VIP_RETURN VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR** DescriptorPtr) {
    return wait("VipSendWait", ViHandle, ua::Queue::Send, Timeout, DescriptorPtr);
}

VIP_RETURN VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR** DescriptorPtr) {
    return wait("VipRecvWait", ViHandle, ua::Queue::Receive, Timeout, DescriptorPtr);
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context,
                         void (*Handler)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE,
                                         VIP_DESCRIPTOR*)) {
    return notify("VipSendNotify", ViHandle, ua::Queue::Send, {Context, Handler});
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context,
                         void (*Handler)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE,
                                         VIP_DESCRIPTOR*)) {
    return notify("VipRecvNotify", ViHandle, ua::Queue::Receive, {Context, Handler});
}

}  // extern "C"
