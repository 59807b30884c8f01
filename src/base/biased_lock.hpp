// SPDX-License-Identifier: BSD-3-Clause
// A lock that costs its usual holder two plain stores. Objects of the hot path are nearly always
// used by one thread, and an atomic exchange with the barriers around it is a third of the time
// that posting a message takes.
//
// The first thread that takes the lock often in a row becomes its owner. The owner enters by saying
// so (inside_) and then looking whether it still is the owner. Whoever else wants the lock takes
// the ordinary lock behind it, makes the owner a stranger (owner_), has the kernel execute a
// barrier on all threads of the process, and waits until the owner is not inside. After the barrier
// either the owner sees that it is none, or its claim is seen here. The owner earns the lock back
// by using it; no other thread ever owns it, so that inside_ has one writer.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/process_barrier.hpp"
#include "base/spin_lock.hpp"

namespace via::base {

/// Threads that take other threads' locks now and then (the service thread) own none.
inline thread_local bool this_thread_owns_no_locks = false;

class BiasedLock {
  public:
    BiasedLock() = default;
    BiasedLock(const BiasedLock&) = delete;
    BiasedLock& operator=(const BiasedLock&) = delete;

    /// Returns what unlock() must be told: whether it was taken as the owner.
    [[gnu::always_inline, nodiscard]] inline bool lock() noexcept {
        if (enter_as_owner()) [[likely]]
            return true;
        lock_as_stranger();
        return false;
    }
    /// As lock(), but waits only for the owner to leave, not for a stranger.
    [[nodiscard]] bool try_lock(bool& as_owner) noexcept {
        as_owner = enter_as_owner();
        if (as_owner) [[likely]]
            return true;
        if (!lock_.try_lock()) return false;
        keep_owner_out();
        return true;
    }
    void unlock(bool as_owner) noexcept {
        if (as_owner) [[likely]]
            inside_.store(false, std::memory_order_release);
        else
            lock_.unlock();
    }

  private:
    static constexpr std::uint32_t turns_to_own = 256;
#if defined(__SANITIZE_THREAD__)
    static constexpr bool somebody_may_own_it = false;  // it does not know the kernel's barrier
#else
    static constexpr bool somebody_may_own_it = true;
#endif

    /// Another name for a thread that lives; one instruction.
    [[nodiscard]] static const void* this_thread() noexcept {
        return __builtin_thread_pointer();
    }

    [[gnu::always_inline, nodiscard]] inline bool enter_as_owner() noexcept {
        const void* self = this_thread();
        if (owner_.load(std::memory_order_relaxed) != self) [[unlikely]]
            return false;
        inside_.store(true, std::memory_order_relaxed);
        // The processor's barrier is the other side's to execute; this keeps the compiler in order.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (owner_.load(std::memory_order_relaxed) == self) [[likely]] {
            std::atomic_signal_fence(std::memory_order_seq_cst);
            return true;
        }
        inside_.store(false, std::memory_order_release);
        return false;
    }
    [[gnu::noinline]] void lock_as_stranger() noexcept {
        lock_.lock();
        keep_owner_out();
    }
    void keep_owner_out() noexcept {
        if (owner_.load(std::memory_order_relaxed) != nullptr) {
            owner_.store(nullptr, std::memory_order_relaxed);
            process_barrier();
            for (unsigned turns = 0; inside_.load(std::memory_order_acquire); ++turns) {
                if (turns < 64)
                    cpu_relax();
                else
                    sched_yield();
            }
        }
        if (!somebody_may_own_it) return;
        const void* self = this_thread();
        if (last_ != self) {
            last_ = self;
            turns_ = 0;
        }
        if (++turns_ < turns_to_own || (candidate_ != nullptr && candidate_ != self) ||
            this_thread_owns_no_locks || !has_process_barrier())
            return;
        candidate_ = self;
        owner_.store(self, std::memory_order_relaxed);
    }

    std::atomic<const void*> owner_{nullptr};
    std::atomic<bool> inside_{false};
    SpinLock lock_;
    // Under lock_.
    const void* last_ = nullptr;       ///< who took it by the ordinary way
    std::uint32_t turns_ = 0;          ///< how often in a row
    const void* candidate_ = nullptr;  ///< the only thread that may own the lock
};

class BiasedGuard {
  public:
    [[gnu::always_inline]] inline explicit BiasedGuard(BiasedLock& lock) noexcept
        : lock_(lock), as_owner_(lock.lock()) {}
    ~BiasedGuard() { lock_.unlock(as_owner_); }
    BiasedGuard(const BiasedGuard&) = delete;
    BiasedGuard& operator=(const BiasedGuard&) = delete;

  private:
    BiasedLock& lock_;
    const bool as_owner_;
};

}  // namespace via::base
