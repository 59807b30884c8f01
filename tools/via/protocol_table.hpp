// SPDX-License-Identifier: BSD-3-Clause
// Which protocol of the message layer, and which path of the device below it, carries a message of
// which size: mvich's own choice, joined with what is known of the devices. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "mvich/message_settings.hpp"

namespace via::tool {

/// Where a peer can be, and what lies between.
struct Ground {
    bool in_place = true;              ///< reached by the shm device
    std::uint32_t longest_packet = 0;  ///< in place: that the channel takes
    std::uint32_t inline_bytes = 0;    ///< in place: longest packet inside a frame; 0: none
    bool cma = true;                   ///< in place: the kernel copies between processes
    std::uint32_t datagram_bytes = 0;  ///< between hosts: of an operation, in one UDP packet
};

struct ProtocolRow {
    std::uint64_t bytes = 0;
    mvich::Protocol protocol = mvich::Protocol::Eager;
    std::string path;
    std::string copies;                ///< by whom
    std::uint32_t copy_count = 0;      ///< of payload, by Viaduct or for it by the kernel's CMA
    std::uint64_t packets = 0;         ///< of the message layer, in both directions
    std::uint64_t datagrams = 0;       ///< between hosts, with payload or packets of the layer
    std::uint64_t credits = 0;         ///< of the receiver's, that the sender takes
    std::uint64_t answer_credits = 0;  ///< of the sender's, that the receiver takes
    std::string reason;
};

/// A message in one piece that the receiver has asked for, at a peer that has credits.
[[nodiscard]] ProtocolRow protocol_row(const mvich::MessageSettings& settings, const Ground& ground,
                                       std::uint64_t bytes);

/// 0, the powers of two to 16 MB, and both sides of every size at which something changes.
[[nodiscard]] std::vector<std::uint64_t> interesting_sizes(const mvich::MessageSettings& settings,
                                                           const Ground& ground);

[[nodiscard]] std::vector<ProtocolRow> protocol_table(const mvich::MessageSettings& settings,
                                                      const Ground& ground);

[[nodiscard]] std::string draw_protocols(const std::vector<ProtocolRow>& rows,
                                         const Ground& ground);
[[nodiscard]] nlohmann::json protocols_json(const std::vector<ProtocolRow>& rows,
                                            const Ground& ground);

}  // namespace via::tool
