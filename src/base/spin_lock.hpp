// SPDX-License-Identifier: BSD-3-Clause
// A lock for critical sections of nanoseconds that are almost never contended: one atomic
// exchange to take, one store to give back. A waiter yields soon, because on a shared core the
// holder may need this very processor.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/cpu.hpp"

namespace via::base {

class SpinLock {
  public:
    SpinLock() = default;
    SpinLock(const SpinLock&) = delete;
    SpinLock& operator=(const SpinLock&) = delete;

    void lock() noexcept {
        if (take()) return;
        lock_contended();
    }
    [[nodiscard]] bool try_lock() noexcept {
        return !taken_.load(std::memory_order_relaxed) && take();
    }
    void unlock() noexcept { taken_.store(0, std::memory_order_release); }

  private:
    /// On Arm an acquiring load waits for every earlier releasing store to leave the core, which
    /// after a message was published means a trip to the other core; a load barrier does not.
    [[nodiscard]] bool take() noexcept {
#if defined(__aarch64__) && !defined(__SANITIZE_THREAD__)
        if (taken_.exchange(1, std::memory_order_relaxed)) return false;
        std::atomic_thread_fence(std::memory_order_acquire);
        return true;
#else
        return !taken_.exchange(1, std::memory_order_acquire);
#endif
    }
    void lock_contended() noexcept {
        for (unsigned turns = 0;; ++turns) {
            if (try_lock()) return;
            if (turns < 64)
                cpu_relax();
            else
                sched_yield();
        }
    }
    std::atomic<std::uint8_t> taken_{0};
};

class SpinGuard {
  public:
    explicit SpinGuard(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
    ~SpinGuard() { lock_.unlock(); }
    SpinGuard(const SpinGuard&) = delete;
    SpinGuard& operator=(const SpinGuard&) = delete;

  private:
    SpinLock& lock_;
};

}  // namespace via::base
