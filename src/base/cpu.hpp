// SPDX-License-Identifier: BSD-3-Clause
// What the hot path needs to know of the processor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

// Under ThreadSanitizer orders are those of single atomics: it does not know fences.

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
#if defined(__x86_64__)
    // What the builtin makes of it for any x86-64 leaves the line with its owner.
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1, 3);
#endif
}

/// A word that is loaded by itself. Two that were just stored one by one and are loaded together
/// would be waited for until both stores have left the core: compilers do not know that.
template <class Word>
[[nodiscard]] inline Word by_itself(Word word) noexcept {
    static_assert(sizeof word == sizeof(std::uint64_t));
    asm("" : "+r"(word));
    return word;
}

/// An acquiring load where nothing that follows matters unless `wanted(value)`. On Arm the order
/// then costs a load barrier only when something is there, and an empty poll does not wait for
/// earlier releasing stores to leave the core, as a plain acquiring load would.
template <class T, class Wanted>
[[nodiscard]] inline T load_then_order(const std::atomic<T>& word, Wanted wanted) noexcept {
#if defined(__aarch64__) && !defined(__SANITIZE_THREAD__)
    const T value = word.load(std::memory_order_relaxed);
    if (wanted(value)) std::atomic_thread_fence(std::memory_order_acquire);
    return value;
#else
    (void)wanted;
    return word.load(std::memory_order_acquire);
#endif
}

/// A pointer whose target is read only through it: the dependency orders the two on every processor
/// we run on, so the load need not acquire.
template <class T>
[[nodiscard]] inline T* load_pointer(const std::atomic<T*>& pointer) noexcept {
#if defined(__SANITIZE_THREAD__)
    return pointer.load(std::memory_order_acquire);
#else
    return pointer.load(std::memory_order_relaxed);
#endif
}

#if defined(__aarch64__)
/// Is an aligned 16-byte store seen whole or not at all (FEAT_LSE2)?
inline const bool wide_stores_are_atomic = (getauxval(AT_HWCAP) & HWCAP_USCAT) != 0;
#endif

#if defined(__x86_64__)
/// The same of x86: those with AVX promise it.
inline const bool wide_stores_are_atomic = __builtin_cpu_supports("avx") != 0;
#endif

/// Stores two words so that whoever sees the second sees the first, in one piece where the
/// processor can. Written one after the other, a line that a peer polls would be taken away between
/// the two, and the second would have to fetch it back: twice the latency.
inline void store_together(std::atomic<std::uint64_t>& first, std::atomic<std::uint64_t>& second,
                           std::uint64_t first_value, std::uint64_t second_value) noexcept {
#if defined(__aarch64__) && !defined(__SANITIZE_THREAD__)
    if (wide_stores_are_atomic) [[likely]] {
        asm volatile("stp %x1, %x2, [%0]"
                     :
                     : "r"(&first), "r"(first_value), "r"(second_value)
                     : "memory");
        return;
    }
#elif defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    if (wide_stores_are_atomic) [[likely]] {
        std::atomic_signal_fence(std::memory_order_release);
        _mm_store_si128(reinterpret_cast<__m128i*>(&first),
                        _mm_set_epi64x(static_cast<long long>(second_value),
                                       static_cast<long long>(first_value)));
        return;
    }
#endif
    first.store(first_value, std::memory_order_relaxed);
    second.store(second_value, std::memory_order_release);
}

}  // namespace via::base
