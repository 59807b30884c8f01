// SPDX-License-Identifier: BSD-3-Clause
// What the kernel agents of two hosts seal in their messages: a connection asked for, and what has
// become of it. Portable bytes; the decoders trust nothing, although the sender has the cluster's
// key: whatever they return is in range.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "ka/client.hpp"
#include "ka/host_address.hpp"
#include "wire/byte_reader.hpp"

namespace via::ka {

enum class SetupPurpose : std::uint8_t { Connect = 1, Peer = 2 };

/// Of the net fabric. The VI's number stays at home.
struct SetupRequest {
    static constexpr std::size_t max_addresses = 16;

    SetupPurpose purpose = SetupPurpose::Connect;
    std::uint64_t instance = 0;      ///< of the requester's agent, random
    std::uint64_t remaining_ns = 0;  ///< timeout_never: no end
    std::uint64_t patience_ns = 0;   ///< for a server that is not waiting yet
    ConnectOffer offer;
    std::uint16_t port = 0;               ///< of the requester's agent
    std::vector<AgentAddress> addresses;  ///< of the requester's host, with that port
};

struct SetupOutcome {
    enum class State : std::uint8_t { Pending = 1, Established = 2, Failed = 3 };

    State state = State::Pending;
    // Established
    ConnectOffer offer;  ///< the acceptor's
    SessionKey session_key{};
    std::uint64_t connection = 0;  ///< the number that both ends know it by
    // Failed
    base::Error error{base::Code::NoMatch, {}};
};

[[nodiscard]] wire::Bytes encode(const SetupRequest& request);
[[nodiscard]] wire::Bytes encode(const SetupOutcome& outcome);
[[nodiscard]] std::optional<SetupRequest> decode_setup_request(wire::ByteView bytes);
[[nodiscard]] std::optional<SetupOutcome> decode_setup_outcome(wire::ByteView bytes);

}  // namespace via::ka
