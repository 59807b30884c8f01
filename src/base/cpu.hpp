// SPDX-License-Identifier: BSD-3-Clause
// What the hot path needs to know of the processor.
#pragma once

#include <atomic>
#include <cstddef>

// ThreadSanitizer does not know fences; g++ and clang say differently that it is there.
#if defined(__SANITIZE_THREAD__)
#define VIA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VIA_THREAD_SANITIZER 1
#endif
#endif

namespace via::base {

inline constexpr std::size_t cache_line = 64;

/// A breath in a spin loop: frees the pipeline for the sibling thread, costs a few nanoseconds.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

inline void prefetch_for_read(const void* address) noexcept {
    __builtin_prefetch(address, 0, 3);
}
inline void prefetch_for_write(const void* address) noexcept {
    __builtin_prefetch(address, 1, 3);
}

/// An acquiring load where nothing that follows matters unless `wanted(value)`. On Arm the order
/// then costs a load barrier only when something is there, and an empty poll does not wait for
/// earlier releasing stores to leave the core, as a plain acquiring load would.
template <class T, class Wanted>
[[nodiscard]] inline T load_then_order(const std::atomic<T>& word, Wanted wanted) noexcept {
#if defined(__aarch64__) && !defined(VIA_THREAD_SANITIZER)
    const T value = word.load(std::memory_order_relaxed);
    if (wanted(value)) std::atomic_thread_fence(std::memory_order_acquire);
    return value;
#else
    (void)wanted;
    return word.load(std::memory_order_acquire);
#endif
}

}  // namespace via::base
