// SPDX-License-Identifier: BSD-3-Clause
// CRC32C by the processor's CRC and carry-less multiplication. For crc32c.cpp only, which asks
// first whether the processor has them: ARMv8 CRC32 and PMULL, x86-64 SSE4.2 and PCLMULQDQ.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) || (defined(__aarch64__) && defined(__ARM_ARCH) && !defined(__AARCH64EB__))
#define VIA_CRC32C_HARDWARE 1
#else
#define VIA_CRC32C_HARDWARE 0
#endif

namespace via::wire {

#if VIA_CRC32C_HARDWARE
[[nodiscard]] std::uint32_t crc32c_hardware(std::uint32_t seed, const void* data,
                                            std::size_t bytes) noexcept;
[[nodiscard]] std::uint32_t crc32c_copy_hardware(std::uint32_t seed, void* to, const void* from,
                                                 std::size_t bytes) noexcept;
#endif

}  // namespace via::wire
