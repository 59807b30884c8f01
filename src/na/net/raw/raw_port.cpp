// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/raw/raw_port.hpp"

#include <utility>

#include "na/net/raw/packet_ring_port.hpp"
#include "na/net/raw/xdp_port.hpp"

namespace via::na::net {

base::Result<std::unique_ptr<Port>> make_raw_port(RawKind kind, const LocalInterface& where,
                                                  std::uint32_t own_id, const RawAddress& peer) {
    if (where.entry.mac == MacBytes{})
        return {base::Code::NotSupported,
                "no raw path on " + where.name + ": it carries no Ethernet frames"};
    if (peer.mac == MacBytes{})
        return {base::Code::NotSupported, "no raw path on " + where.name +
                                              ": the peer's interface carries no Ethernet frames"};
    if (kind == RawKind::Xdp) return open_xdp_port(where, own_id, peer);
    auto ring = PacketRingPort::open(where, own_id, peer);
    if (ring.ok() || kind == RawKind::Ring) return ring;
    auto xdp = open_xdp_port(where, own_id, peer);
    if (xdp.ok()) return xdp;
    return {ring.error().code, ring.error().sentence + "; " + xdp.error().sentence};
}

}  // namespace via::na::net
