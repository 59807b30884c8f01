// SPDX-License-Identifier: BSD-3-Clause
// The bits of a descriptor's status that more than one suite asks for, as numbers without a sign.
#pragma once

#include <vipl.h>

#include <cstdint>

namespace via::test {

inline constexpr std::uint32_t done_bit = VIP_STATUS_DONE;
inline constexpr std::uint32_t flushed_error = VIP_STATUS_DESC_FLUSHED_ERROR;
inline constexpr std::uint32_t length_error = VIP_STATUS_LENGTH_ERROR;
inline constexpr std::uint32_t protection_error = VIP_STATUS_PROTECTION_ERROR;

}  // namespace via::test
