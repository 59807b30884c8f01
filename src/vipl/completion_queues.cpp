// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>

#include <utility>

#include "ua/nic.hpp"
#include "ua/wait.hpp"
#include "vipl/convert.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"

using namespace via;
using vipl::failed;

namespace {

constexpr VIP_ULONG most_entries = 1U << 20;

}  // namespace

extern "C" {

VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE* CQHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        const auto nic = ua::Nic::find(NicHandle);
        if (!nic) return vipl::bad_nic("VipCreateCQ");
        if (CQHandle == nullptr || EntryCount == 0)
            return failed("VipCreateCQ", VIP_INVALID_PARAMETER,
                          "CQHandle is NULL or EntryCount is 0");
        if (EntryCount > most_entries)
            return failed("VipCreateCQ", VIP_ERROR_RESOURCE,
                          "EntryCount is more than MaxCQEntries (1048576)");
        auto handle = nic->create_cq(static_cast<std::uint32_t>(EntryCount));
        if (!handle) return failed("VipCreateCQ", handle.error());
        *CQHandle = reinterpret_cast<VIP_CQ_HANDLE>(handle.value());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE CQHandle) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::CompletionQueue* cq = ua::cq_table().find(CQHandle);
        if (cq == nullptr) return vipl::bad_cq("VipDestroyCQ");
        auto done = cq->nic()->destroy_cq(*cq, vipl::bits(CQHandle));
        if (!done) return failed("VipDestroyCQ", done.error());
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::CompletionQueue* cq = ua::cq_table().find(CQHandle);
        if (cq == nullptr) return vipl::bad_cq("VipResizeCQ");
        if (EntryCount == 0) return failed("VipResizeCQ", VIP_INVALID_PARAMETER, "EntryCount is 0");
        if (EntryCount > most_entries)
            return failed("VipResizeCQ", VIP_ERROR_RESOURCE,
                          "EntryCount is more than MaxCQEntries (1048576)");
        cq->resize(static_cast<std::uint32_t>(EntryCount));
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE* ViHandle, VIP_BOOLEAN* RecvQueue) {
    ua::CompletionQueue* cq = ua::cq_table().find(CQHandle);
    if (cq == nullptr) [[unlikely]]
        return vipl::bad_cq("VipCQDone");
    if (ViHandle == nullptr || RecvQueue == nullptr) [[unlikely]]
        return failed("VipCQDone", VIP_INVALID_PARAMETER, "a pointer argument is NULL");
    ua::CompletionEntry entry;
    if (!cq->poll_for_program(entry)) {
        if (cq->should_yield()) sched_yield();
        return VIP_NOT_DONE;
    }
    *ViHandle = reinterpret_cast<VIP_VI_HANDLE>(entry.vi);
    *RecvQueue = entry.receive ? VIP_TRUE : VIP_FALSE;
    return VIP_SUCCESS;
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE* ViHandle,
                     VIP_BOOLEAN* RecvQueue) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::CompletionQueue* cq = ua::cq_table().find(CQHandle);
        if (cq == nullptr) return vipl::bad_cq("VipCQWait");
        if (ViHandle == nullptr || RecvQueue == nullptr)
            return failed("VipCQWait", VIP_INVALID_PARAMETER, "a pointer argument is NULL");
        const auto nic = cq->nic();
        ua::CompletionEntry entry;
        bool destroyed = false;
        bool slept = false;
        const auto look = [&] {
            destroyed = cq->handle.load(std::memory_order_acquire) != vipl::bits(CQHandle);
            return destroyed || cq->poll_for_program(entry);
        };
        const auto arm = [&] {
            if (!std::exchange(slept, true)) cq->sleeper_enters();
            cq->group()->arm(na::Wakes::Sleeper);
        };
        const base::Nanoseconds spin = nic->process().spin();
        const base::Deadline deadline = vipl::to_deadline(Timeout);
        const bool found = nic->device().attributes().simulated
                               ? ua::wait_in_simulation(spin, deadline, look, arm)
                               : ua::wait_until(nic->process().doorbell(), spin, deadline, look,
                                                arm, [&] { return cq->should_yield(); });
        if (slept) {
            cq->sleeper_leaves();
            // Now the service thread has to watch again whether the program polls.
            nic->process().look_after();
        }
        if (destroyed) return vipl::bad_cq("VipCQWait");
        if (!found)
            return failed("VipCQWait", VIP_TIMEOUT,
                          "nothing on the completion queue within the timeout");
        *ViHandle = reinterpret_cast<VIP_VI_HANDLE>(entry.vi);
        *RecvQueue = entry.receive ? VIP_TRUE : VIP_FALSE;
        return VIP_SUCCESS;
    });
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context,
                       void (*Handler)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        ua::CompletionQueue* cq = ua::cq_table().find(CQHandle);
        if (cq == nullptr) return vipl::bad_cq("VipCQNotify");
        if (Handler == nullptr)
            return failed("VipCQNotify", VIP_INVALID_PARAMETER, "Handler is NULL");
        ua::Process& process = cq->nic()->process();
        cq->notifications.add({Context, Handler});
        process.notification_armed();
        process.call_handlers_soon();
        return VIP_SUCCESS;
    });
}

}  // extern "C"
