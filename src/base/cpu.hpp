// SPDX-License-Identifier: BSD-3-Clause
// What the hot path needs to know of the processor.
#pragma once

#include <cstddef>

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

}  // namespace via::base
