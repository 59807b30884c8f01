// SPDX-License-Identifier: BSD-3-Clause
// One place to look for the completions of many work queues.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "via/completion.hpp"

namespace via {

class CompletionQueue {
  public:
    // Use Nic::create_completion_queue.
    explicit CompletionQueue(std::shared_ptr<detail::QueueHandle> handle) noexcept
        : handle_(std::move(handle)) {}
    CompletionQueue(CompletionQueue&&) noexcept = default;
    CompletionQueue& operator=(CompletionQueue&&) noexcept = default;

    // The oldest completion, if there is one.
    std::optional<Completion> poll() {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN receive = VIP_FALSE;
        while (VipCQDone(handle_->value, &vi, &receive) == VIP_SUCCESS) {
            if (auto completion = fetch(vi, receive != VIP_FALSE)) return completion;
        }
        return std::nullopt;
    }

    // VIP_TIMEOUT when none came in time.
    Expected<Completion> wait(std::chrono::milliseconds timeout) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN receive = VIP_FALSE;
        const detail::Deadline deadline(timeout);
        for (;;) {
            const VIP_RETURN code =
                VipCQWait(handle_->value, detail::milliseconds(deadline.left()), &vi, &receive);
            if (code == VIP_TIMEOUT) {
                return Error{code, "waiting on a completion queue: nothing ended " +
                                       detail::within(timeout)};
            }
            if (code != VIP_SUCCESS) return Error::last(code);
            if (auto completion = fetch(vi, receive != VIP_FALSE)) return std::move(*completion);
        }
    }

    Expected<void> resize(std::size_t entries) {
        return detail::check(VipResizeCQ(handle_->value, entries));
    }

    VIP_CQ_HANDLE handle() const noexcept { return handle_->value; }
    const std::shared_ptr<detail::QueueHandle>& shared_handle() const noexcept { return handle_; }

  private:
    // Nothing when the descriptor was already taken from the work queue directly.
    static std::optional<Completion> fetch(VIP_VI_HANDLE vi, bool receive) {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code =
            receive ? VipRecvDone(vi, &descriptor) : VipSendDone(vi, &descriptor);
        if ((code != VIP_SUCCESS && code != VIP_DESCRIPTOR_ERROR) || descriptor == nullptr) {
            return std::nullopt;
        }
        return detail::complete(vi, receive, descriptor);
    }

    std::shared_ptr<detail::QueueHandle> handle_;
};

}  // namespace via
