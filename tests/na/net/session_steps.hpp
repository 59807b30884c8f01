// SPDX-License-Identifier: BSD-3-Clause
// Steps that tests of a session's rules have in common: an end hangs up, a chain of many segments
// is posted, an endpoint has been told something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "na/net/simulated_network.hpp"
#include "na/physical_descriptor.hpp"
#include "na/work_queue.hpp"

namespace via::test {

using na::EndpointEvent;
using Side = SimulatedNetwork::Side;

/// Enough for something to happen in the middle of it.
inline constexpr std::size_t long_bytes = 2U << 20U;

inline bool has_event(const Side& side, EndpointEvent event) {
    return (side.queues.events & static_cast<std::uint32_t>(event)) != 0;
}

/// As an endpoint does it when the user agent ends the connection.
inline void disconnect(SimulatedNetwork& network, std::size_t index) {
    Side& side = network.side(index);
    const wire::CloseFrame reason = side.session.reason();
    side.session.detach();
    side.transport.close(reason, network.now());
    network.poll(index);
}

/// A chain with many segments, as the user agent posts it.
inline void post_segments(na::WorkQueue& queue, na::Operation operation,
                          const std::vector<na::PhysicalDescriptor>& segments) {
    std::uint32_t length = 0;
    for (const auto& segment : segments)
        length += segment.length;
    const na::ChainHead head{operation, 0, static_cast<std::uint16_t>(segments.size()), length, 0};
    queue.make_room(head.chain_pds());
    queue.post(1, 0, head.chain_pds(),
               operation == na::Operation::Receive ? na::status_op_receive : na::status_op_send);
    queue.pds.push(na::encode_head(head));
    for (const auto& segment : segments)
        queue.pds.push(segment);
}

}  // namespace via::test
