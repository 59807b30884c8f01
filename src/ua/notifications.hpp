// SPDX-License-Identifier: BSD-3-Clause
// Handlers of the Notify calls and of asynchronous errors. They run on the service thread, never
// with a lock of ours held.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/spin_lock.hpp"
#include "vipl.h"

namespace via::ua {

struct ViHandler {
    VIP_PVOID context;
    void (*call)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR*);
};
struct CqHandler {
    VIP_PVOID context;
    void (*call)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN);
};

/// Handlers waiting for a completion each, served in order.
template <class Handler>
class NotificationList {
  public:
    void add(const Handler& handler) {
        const std::lock_guard guard(lock_);
        waiting_.push_back(handler);
        count_.store(static_cast<std::uint32_t>(waiting_.size()), std::memory_order_release);
    }
    /// A hint: what it counts is read under the lock.
    [[nodiscard]] bool empty() const noexcept {
        return count_.load(std::memory_order_relaxed) == 0;
    }
    [[nodiscard]] bool take(Handler& handler) noexcept {
        const std::lock_guard guard(lock_);
        const bool some = !waiting_.empty();
        if (some) {
            handler = waiting_.front();
            waiting_.pop_front();
            count_.store(static_cast<std::uint32_t>(waiting_.size()), std::memory_order_release);
        }
        return some;
    }
    /// How many were cancelled.
    std::size_t clear() noexcept {
        const std::lock_guard guard(lock_);
        const std::size_t count = waiting_.size();
        waiting_.clear();
        count_.store(0, std::memory_order_release);
        return count;
    }

  private:
    base::SpinLock lock_;
    std::deque<Handler> waiting_;
    std::atomic<std::uint32_t> count_{0};
};

/// On the service thread: calls every handler whose completion is there.
void serve_notifications();
/// On the service thread: the handlers of asynchronous errors, then those of notifications.
void call_handlers();

}  // namespace via::ua
