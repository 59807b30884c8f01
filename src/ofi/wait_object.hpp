// SPDX-License-Identifier: BSD-3-Clause
// What a program sleeps on by itself while one of its queues or counters is empty: a file
// descriptor, a condition, or both inside a wait set. It is signalled only when somebody has said
// that it is going to sleep, so that nobody else pays for it.
#pragma once

#include <pthread.h>

#include <atomic>

#include <rdma/fi_eq.h>

#include "base/clock.hpp"
#include "base/fd.hpp"

namespace via::ofi {

class WaitObject {
  public:
    WaitObject() = default;
    ~WaitObject();
    WaitObject(const WaitObject&) = delete;
    WaitObject& operator=(const WaitObject&) = delete;

    /// 0, or what the call that opens its owner returns.
    [[nodiscard]] int open(fi_wait_obj kind);
    [[nodiscard]] fi_wait_obj kind() const noexcept { return kind_; }
    /// What fi_control asks of the owner: FI_GETWAIT, FI_GETWAITOBJ.
    [[nodiscard]] int control(int command, void* argument) const;

    /// Somebody is going to sleep: a signal that is not yet taken is forgotten.
    void prepare() noexcept;
    /// Wakes who has prepared for it. `lock` of its owner is held.
    void signal_if_wanted() noexcept {
        if (wanted_.load(std::memory_order_relaxed)) [[unlikely]]
            signal();
    }
    void signal() noexcept;
    /// Sleeps on the file descriptor.
    void sleep(base::Deadline deadline) noexcept;

  private:
    [[nodiscard]] int give(void* to) const;

    fi_wait_obj kind_ = FI_WAIT_NONE;
    std::atomic<bool> wanted_{false};
    base::UniqueFd fd_;
    mutable pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    mutable pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace via::ofi
