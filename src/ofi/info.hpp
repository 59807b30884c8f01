// SPDX-License-Identifier: BSD-3-Clause
// fi_getinfo: what this provider can do, made to fit what a program asks for. Opens nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rdma/fabric.h>

namespace via::ofi {

inline constexpr std::size_t max_queue_depth = 1 << 20;
/// What connection requests and their answers may carry.
inline constexpr std::size_t max_connection_data = 256;
inline constexpr std::size_t max_region_pieces = 8;
/// Of FI_EP_DGRAM: as much as other networks' datagrams carry.
inline constexpr std::size_t max_datagram_bytes = 65536;

/// Of a scalable endpoint, each way, and of the bits that name one in an address.
inline constexpr std::size_t max_contexts = 16;
inline constexpr int max_context_bits = 8;

/// Flags that transmit and receive operations understand.
inline constexpr std::uint64_t transmit_flags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |
    FI_REMOTE_CQ_DATA | FI_MORE | FI_FENCE | FI_PRIORITY;
inline constexpr std::uint64_t receive_flags = FI_COMPLETION | FI_MULTI_RECV | FI_MORE;

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info);

/// Whether windows are addressed by virtual address, and who chooses keys.
struct RegionMode {
    bool virtual_addresses = false;
    bool provider_keys = false;
};
[[nodiscard]] RegionMode region_mode(int mr_mode) noexcept;

}  // namespace via::ofi
