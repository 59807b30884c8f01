// SPDX-License-Identifier: BSD-3-Clause
// Between VIPL's C structures and the user agent's types.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "ua/nic.hpp"
#include "vipl.h"

namespace via::vipl {

/// Both notions of infinity: all ones of VIP_ULONG, and 32 bits of ones.
[[nodiscard]] base::Deadline to_deadline(VIP_ULONG milliseconds) noexcept;

[[nodiscard]] base::Result<ka::NetAddress> to_address(const VIP_NET_ADDRESS* address);
/// Writes the whole address: 4 bytes, host, discriminator.
void from_address(const ka::NetAddress& from, VIP_NET_ADDRESS* to) noexcept;

/// Checks a VI's attributes against the NIC and translates them.
[[nodiscard]] base::Result<ka::EndpointAttributes> to_endpoint_attributes(
    ua::Nic& nic, const VIP_VI_ATTRIBUTES& attributes);
/// `with_tag`: the tag means something only in the process that owns the VI.
void from_endpoint_attributes(const ka::EndpointAttributes& from, bool with_tag,
                              VIP_VI_ATTRIBUTES* to) noexcept;

[[nodiscard]] base::Result<ua::MemoryAttributes> to_memory_attributes(
    ua::Nic& nic, const VIP_MEM_ATTRIBUTES* attributes);

[[nodiscard]] ka::ProtectionTag to_tag(VIP_PROTECTION_HANDLE tag) noexcept;
[[nodiscard]] VIP_PROTECTION_HANDLE from_tag(ka::ProtectionTag tag) noexcept;

}  // namespace via::vipl
