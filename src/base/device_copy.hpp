// SPDX-License-Identifier: BSD-3-Clause
// A copy as a device makes it: a NIC asks nobody who may be using the memory at that moment. What
// the program may do meanwhile is for the program to decide, so ThreadSanitizer does not watch it.
#pragma once

#include <cstddef>
#include <cstring>

namespace via::base {

#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread"), noinline)) inline void device_copy(
    std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    auto* out = reinterpret_cast<volatile unsigned char*>(to);
    const auto* in = reinterpret_cast<const volatile unsigned char*>(from);
    for (std::size_t i = 0; i < bytes; ++i)
        out[i] = in[i];
}
#else
inline void device_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes != 0) std::memcpy(to, from, bytes);
}
#endif

}  // namespace via::base
