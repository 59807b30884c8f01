// SPDX-License-Identifier: BSD-3-Clause
// The measured VI with its descriptors, and the few steps the measuring loops are made of: post,
// reap, wait. All of it is set up beforehand; nothing here allocates.
#pragma once

#include <sched.h>
#include <vipl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "pattern.hpp"
#include "terms.hpp"
#include "vipl_objects.hpp"

namespace via::tool {

/// How a loop learns that a descriptor is done; a template argument, so the choice costs nothing.
enum class WaitMode { PollDirect, PollQueue, BlockDirect, BlockQueue };

[[nodiscard]] constexpr bool blocks(WaitMode mode) {
    return mode == WaitMode::BlockDirect || mode == WaitMode::BlockQueue;
}
[[nodiscard]] constexpr bool uses_queue(WaitMode mode) {
    return mode == WaitMode::PollQueue || mode == WaitMode::BlockQueue;
}
[[nodiscard]] WaitMode wait_mode(const SessionTerms& terms);

struct Link {
    VIP_VI_HANDLE vi = nullptr;
    VIP_CQ_HANDLE queue = nullptr;
    VIP_MEM_HANDLE descriptors = 0;  ///< the region in which the descriptors lie
    VIP_DESCRIPTOR* sends = nullptr;
    std::uint32_t send_slots = 0;
    std::uint32_t sends_under_way = 0;
    VIP_DESCRIPTOR* receives = nullptr;
    std::uint32_t receive_slots = 0;
    std::uint32_t receive_bytes = 0;      ///< what each posted receive can take
    VIP_DESCRIPTOR* last_word = nullptr;  ///< an empty message, to end a stream of RDMA writes
    VIP_ULONG patience = 0;               ///< milliseconds, for blocking waits

    // The first thing that went wrong.
    VIP_RETURN failure = VIP_SUCCESS;
    std::uint32_t failure_status = 0;
    const char* failed_at = nullptr;
    std::optional<std::size_t> wrong_byte;
    std::uint64_t wrong_message = 0;

    [[gnu::cold, gnu::noinline]] void fail(const char* what, VIP_RETURN code,
                                           const VIP_DESCRIPTOR* descriptor) {
        if (failed_at != nullptr) return;
        failed_at = what;
        failure = code;
        if (code == VIP_DESCRIPTOR_ERROR && descriptor != nullptr)
            failure_status = descriptor->CS.Status;
    }
    [[gnu::cold, gnu::noinline]] void fail_contents(std::uint64_t message, std::size_t offset) {
        if (failed_at != nullptr) return;
        failed_at = "checking a message";
        wrong_message = message;
        wrong_byte = offset;
    }
};

[[nodiscard]] base::Error link_error(const Link& link, const Nic& nic);

/// False: it failed, and the link says how.
inline bool post_send(Link& link, VIP_DESCRIPTOR* descriptor) {
    const VIP_RETURN code = VipPostSend(link.vi, descriptor, link.descriptors);
    if (code != VIP_SUCCESS) [[unlikely]] {
        link.fail("posting a send", code, nullptr);
        return false;
    }
    ++link.sends_under_way;
    return true;
}

inline bool post_receive(Link& link, VIP_DESCRIPTOR* descriptor) {
    descriptor->CS.Length = link.receive_bytes;  // completion left the message's length there
    const VIP_RETURN code = VipPostRecv(link.vi, descriptor, link.descriptors);
    if (code != VIP_SUCCESS) [[unlikely]] {
        link.fail("posting a receive", code, nullptr);
        return false;
    }
    return true;
}

/// Takes back the sends that are done. For send queues without a completion queue.
inline bool reap_sends(Link& link) {
    while (link.sends_under_way > 0) {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendDone(link.vi, &descriptor);
        if (code == VIP_NOT_DONE) return true;
        if (code != VIP_SUCCESS) [[unlikely]] {
            link.fail("sending", code, descriptor);
            return false;
        }
        --link.sends_under_way;
    }
    return true;
}

/// Waits until at most `left` sends are under way.
template <WaitMode mode>
inline bool wait_sends(Link& link, std::uint32_t left) {
    while (link.sends_under_way > left) {
        if constexpr (blocks(mode)) {
            VIP_DESCRIPTOR* descriptor = nullptr;
            const VIP_RETURN code = VipSendWait(link.vi, link.patience, &descriptor);
            if (code != VIP_SUCCESS) [[unlikely]] {
                link.fail("waiting for a send", code, descriptor);
                return false;
            }
            --link.sends_under_way;
        } else if (!reap_sends(link)) {
            return false;
        }
    }
    return true;
}

/// One look for a completed receive (or, on a VI whose sends go through the completion queue, a
/// completed send). VIP_NOT_DONE: nothing yet. Another code: it failed, and the link says how.
template <WaitMode mode, bool of_sends = false>
inline VIP_RETURN poll_completion(Link& link, VIP_DESCRIPTOR*& descriptor) {
    if constexpr (uses_queue(mode)) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        const VIP_RETURN code = VipCQDone(link.queue, &vi, &is_receive);
        if (code == VIP_NOT_DONE) return code;
        if (code != VIP_SUCCESS || vi != link.vi) [[unlikely]] {
            link.fail("polling the completion queue", code, nullptr);
            return VIP_ERROR;
        }
    }
    const VIP_RETURN code =
        of_sends ? VipSendDone(link.vi, &descriptor) : VipRecvDone(link.vi, &descriptor);
    if (code == VIP_SUCCESS) [[likely]]
        return code;
    if (!uses_queue(mode) && code == VIP_NOT_DONE) return code;
    link.fail(of_sends ? "sending" : "receiving", code, descriptor);
    return VIP_ERROR;
}

/// Waits for one completion as the mode says; nullptr: it failed, and the link says how.
template <WaitMode mode, bool of_sends = false>
inline VIP_DESCRIPTOR* wait_completion(Link& link) {
    VIP_DESCRIPTOR* descriptor = nullptr;
    if constexpr (mode == WaitMode::BlockDirect) {
        const VIP_RETURN code = of_sends ? VipSendWait(link.vi, link.patience, &descriptor)
                                         : VipRecvWait(link.vi, link.patience, &descriptor);
        if (code == VIP_SUCCESS) [[likely]]
            return descriptor;
        link.fail("waiting for a completion", code, descriptor);
        return nullptr;
    } else if constexpr (mode == WaitMode::BlockQueue) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        VIP_RETURN code = VipCQWait(link.queue, link.patience, &vi, &is_receive);
        if (code != VIP_SUCCESS || vi != link.vi) [[unlikely]] {
            link.fail("waiting at the completion queue", code, nullptr);
            return nullptr;
        }
        code = of_sends ? VipSendDone(link.vi, &descriptor) : VipRecvDone(link.vi, &descriptor);
        if (code == VIP_SUCCESS) [[likely]]
            return descriptor;
        link.fail(of_sends ? "sending" : "receiving", code, descriptor);
        return nullptr;
    } else {
        for (;;) {
            const VIP_RETURN code = poll_completion<mode, of_sends>(link, descriptor);
            if (code == VIP_SUCCESS) [[likely]]
                return descriptor;
            if (code != VIP_NOT_DONE) [[unlikely]]
                return nullptr;
            // A large message may need its sender's help until it is through.
            if (!of_sends && link.sends_under_way > 0 && !reap_sends(link)) [[unlikely]]
                return nullptr;
        }
    }
}

template <WaitMode mode>
inline VIP_DESCRIPTOR* wait_receive(Link& link) {
    return wait_completion<mode, false>(link);
}

/// Calls `body.template operator()<mode>()` for the mode that holds at run time.
template <class Body>
decltype(auto) with_mode(WaitMode mode, const Body& body) {
    switch (mode) {
        case WaitMode::PollQueue:
            return body.template operator()<WaitMode::PollQueue>();
        case WaitMode::BlockDirect:
            return body.template operator()<WaitMode::BlockDirect>();
        case WaitMode::BlockQueue:
            return body.template operator()<WaitMode::BlockQueue>();
        case WaitMode::PollDirect:
            break;
    }
    return body.template operator()<WaitMode::PollDirect>();
}

/// The same for what happens to the contents of messages.
template <class Body>
decltype(auto) with_contents(const SessionTerms& terms, const Body& body) {
    if (terms.check) return body.template operator()<Contents::Checked>();
    if (terms.fresh) return body.template operator()<Contents::Fresh>();
    return body.template operator()<Contents::Same>();
}

}  // namespace via::tool
