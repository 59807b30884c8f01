// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace via::links {

enum class SendOutcome : std::uint8_t {
    Sent,
    Later,      ///< the socket is full: not sent, try again when there is room
    Congested,  ///< the interface's queue, which others use too, is full: likewise
    TooLong,    ///< the packet is larger than the interface carries
    Refused,    ///< the peer's host says that nobody listens there
    LinkDown,   ///< the interface, or the way to the peer, is down
};

}  // namespace via::links
