// SPDX-License-Identifier: BSD-3-Clause
// CRC32C by the processor's CRC and carry-less multiplication, a file for each set of instructions.
// For crc32c.cpp only, which asks first whether the processor has them.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__aarch64__) && !defined(__AARCH64EB__)
#define VIA_CRC32C_ARM 1
#else
#define VIA_CRC32C_ARM 0
#endif
#if defined(__x86_64__)
#define VIA_CRC32C_X86 1
#else
#define VIA_CRC32C_X86 0
#endif

namespace via::wire {

#if VIA_CRC32C_ARM
/// CRC32 and PMULL.
[[nodiscard]] std::uint32_t crc32c_arm(std::uint32_t seed, const void* data,
                                       std::size_t bytes) noexcept;
/// These and SHA3.
[[nodiscard]] std::uint32_t crc32c_arm_sha3(std::uint32_t seed, const void* data,
                                            std::size_t bytes) noexcept;
#endif

#if VIA_CRC32C_X86
/// SSE4.2 and PCLMULQDQ.
[[nodiscard]] std::uint32_t crc32c_x86(std::uint32_t seed, const void* data,
                                       std::size_t bytes) noexcept;
[[nodiscard]] std::uint32_t crc32c_copy_x86(std::uint32_t seed, void* to, const void* from,
                                            std::size_t bytes) noexcept;
/// These, AVX2 and VPCLMULQDQ.
[[nodiscard]] std::uint32_t crc32c_x86_avx2(std::uint32_t seed, const void* data,
                                            std::size_t bytes) noexcept;
[[nodiscard]] std::uint32_t crc32c_copy_x86_avx2(std::uint32_t seed, void* to, const void* from,
                                                 std::size_t bytes) noexcept;
/// These and AVX-512 (F, BW, VL).
[[nodiscard]] std::uint32_t crc32c_x86_wide(std::uint32_t seed, const void* data,
                                            std::size_t bytes) noexcept;
[[nodiscard]] std::uint32_t crc32c_copy_x86_wide(std::uint32_t seed, void* to, const void* from,
                                                 std::size_t bytes) noexcept;
#endif

}  // namespace via::wire
