// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/protocol_choice.hpp"

#include <algorithm>

namespace via::mvich {

std::optional<Protocol> forced_protocol(std::string_view name) noexcept {
    for (const Protocol protocol : {Protocol::Eager, Protocol::R3, Protocol::Rget, Protocol::Rput})
        if (name == protocol_name(protocol)) return protocol;
    return std::nullopt;
}

std::string_view protocol_name(Protocol protocol) noexcept {
    switch (protocol) {
        case Protocol::Eager:
            return "eager";
        case Protocol::R3:
            return "r3";
        case Protocol::Rget:
            return "rget";
        case Protocol::Rput:
            return "rput";
    }
    return "?";
}

std::uint64_t eager_limit(const ProtocolSettings& settings, const LaneAbilities& lane) noexcept {
    if (!settings.forced) return std::min<std::uint64_t>(settings.eager_bytes, lane.eager_bytes);
    return *settings.forced == Protocol::Eager ? lane.eager_bytes : 0;
}

ProtocolChoice choose_protocol(const ProtocolSettings& settings, const LaneAbilities& lane,
                               const MessageShape& message) noexcept {
    const bool eager_possible = settings.forced ? *settings.forced == Protocol::Eager : true;
    if (eager_possible && message.bytes <= eager_limit(settings, lane)) {
        if (message.to_be_matched) return {Protocol::R3, "the sender waits until it is received"};
        if (!message.peer_starves) return {Protocol::Eager, "it fits into a packet"};
        return {Protocol::R3, "the peer's vbufs hold messages that nobody asked for"};
    }
    const bool can_rdma = message.one_piece && message.bytes != 0;
    if (settings.forced) {
        if (*settings.forced == Protocol::Eager)
            return {Protocol::R3, "longer than a packet, though eager is wanted"};
        if (*settings.forced == Protocol::Rget && can_rdma && lane.rdma_read)
            return {Protocol::Rget, "it is wanted"};
        if (*settings.forced == Protocol::Rput && can_rdma && lane.rdma_write)
            return {Protocol::Rput, "it is wanted"};
        return {Protocol::R3, *settings.forced == Protocol::R3
                                  ? "it is wanted"
                                  : "RDMA is wanted but needs one piece of at least one byte"};
    }
    if (message.bytes < settings.least_rdma(lane.in_place, message.in_stream)) {
        if (can_rdma && lane.one_copy && message.bytes >= settings.least_rdma(lane.in_place, true))
            return {Protocol::R3, "copies of both ends overlap; rget if others are under way"};
        return {Protocol::R3, "copies of both ends overlap, and a handshake bounds the buffers"};
    }
    if (!can_rdma) return {Protocol::R3, "RDMA needs one piece"};
    if (lane.in_place) {
        if (lane.one_copy)
            return {Protocol::Rget, "one copy: the receiver reads a half, the sender writes one"};
        return {Protocol::R3, "neither end can reach into the other's memory (no CMA)"};
    }
    // Between hosts a read would take a round trip more than a write.
    if (lane.rdma_write) return {Protocol::Rput, "straight out of the sender's memory"};
    if (lane.rdma_read) return {Protocol::Rget, "one copy, made by the receiver"};
    return {Protocol::R3, "no RDMA on this connection"};
}

}  // namespace via::mvich
