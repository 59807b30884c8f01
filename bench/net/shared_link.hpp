// SPDX-License-Identifier: BSD-3-Clause
// Streams of ours and of TCP on one link of limited rate: who gets how much of it.
#pragma once

#include "net/net_peers.hpp"
#include "net/via_net.hpp"

namespace via::bench {

struct SharedLink {
    unsigned our_streams = 2;
    unsigned tcp_streams = 2;
    std::string congestion = "cubic";
    base::Nanoseconds settle_time = 1'000'000'000;  ///< before anything is counted
    base::Nanoseconds time = 1'500'000'000;
};

/// The share of what the link carries that is ours, in percent, headers and repetitions included.
/// The link must have a rate.
[[nodiscard]] Probe our_share(const ViaTool& via, const NetPlace& place, const SharedLink& wanted);

}  // namespace via::bench
