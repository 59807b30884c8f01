// SPDX-License-Identifier: BSD-3-Clause
// Which of the four protocols carries a message, and why: a pure function, which `via protocols`
// prints as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "mvich/lane.hpp"
#include "mvich/packet.hpp"

namespace via::mvich {

struct ProtocolSettings {
    std::uint64_t eager_bytes = 4096;
    std::uint64_t rdma_bytes = 262144;      ///< between hosts
    std::uint64_t one_copy_bytes = 262144;  ///< inside a host
    /// In a stream nobody waits for the first byte of a message, so it begins to pay earlier.
    [[nodiscard]] std::uint64_t least_rdma(bool in_place, bool in_stream) const noexcept {
        return !in_place ? rdma_bytes : in_stream ? one_copy_bytes / 4 : one_copy_bytes;
    }
    std::optional<Protocol> forced;
};

/// Of VIA_MPI_PROTOCOL; nothing: auto.
[[nodiscard]] std::optional<Protocol> forced_protocol(std::string_view name) noexcept;
[[nodiscard]] std::string_view protocol_name(Protocol protocol) noexcept;

struct ProtocolChoice {
    Protocol protocol;
    std::string_view reason;
};

struct MessageShape {
    std::uint64_t bytes = 0;
    bool one_piece = true;  ///< RDMA needs that
    /// The peer's vbufs are full of messages that nobody asked for.
    bool peer_starves = false;
    bool in_stream = false;  ///< others to the same peer are under way
    /// The sender waits until a receive has taken it, so it has to be asked for.
    bool to_be_matched = false;
};

/// The largest message that is sent at once on a lane.
[[nodiscard]] std::uint64_t eager_limit(const ProtocolSettings& settings,
                                        const LaneAbilities& lane) noexcept;
[[nodiscard]] ProtocolChoice choose_protocol(const ProtocolSettings& settings,
                                             const LaneAbilities& lane,
                                             const MessageShape& message) noexcept;

}  // namespace via::mvich
