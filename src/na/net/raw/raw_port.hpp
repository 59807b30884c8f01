// SPDX-License-Identifier: BSD-3-Clause
// Ports below IP, for packets up to one MTU: half of UDP's latency where the process may.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "na/net/pairing.hpp"
#include "na/net/port.hpp"
#include "na/net/raw/raw_frame.hpp"

namespace via::na::net {

enum class RawKind : std::uint8_t {
    Auto,  ///< the ring, or else AF_XDP
    Ring,  ///< AF_PACKET with a ring in memory
    Xdp,   ///< AF_XDP
};

/// A port of that kind on the interface, for frames with `own_id`. One send is one packet. Both
/// ends may be of different kinds, but an AF_XDP port takes no more than its max_packet_bytes():
/// the ends must agree on the smaller of the two. The error says why it is refused.
[[nodiscard]] base::Result<std::unique_ptr<Port>> make_raw_port(RawKind kind,
                                                                const LocalInterface& where,
                                                                std::uint32_t own_id,
                                                                const RawAddress& peer);

}  // namespace via::na::net
