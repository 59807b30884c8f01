// SPDX-License-Identifier: BSD-3-Clause
// What tests of a session over a simulated network have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "na/net/simulated_network.hpp"
#include "na/physical_descriptor.hpp"
#include "na/work_queue.hpp"

namespace via::test {

inline NetworkOptions options_of(std::uint32_t links,
                                 std::uint32_t reliability = na::reliable_delivery) {
    NetworkOptions options;
    options.links = links;
    options.reliability = reliability;
    return options;
}

/// Registered memory.
struct Memory {
    explicit Memory(std::size_t bytes, std::uint32_t rights = 0, std::uint32_t tag = 1)
        : data(bytes),
          handle(SimulatedNetwork::register_memory(data.data(), data.size(), rights, tag)) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { SimulatedNetwork::deregister_memory(handle); }
    [[nodiscard]] std::span<std::byte> part(std::size_t at, std::size_t bytes) {
        return std::span(data).subspan(at, bytes);
    }
    [[nodiscard]] bool untouched() const {
        return std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; });
    }
    std::vector<std::byte> data;
    std::uint32_t handle;
};

inline std::uint32_t error_of(const std::optional<na::WorkEntry>& entry) {
    return entry ? entry->status & na::status_error_mask : ~0U;
}

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
