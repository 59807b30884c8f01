// SPDX-License-Identifier: BSD-3-Clause
// libfabric's tcp provider between two hosts of a lab: a ping-pong of two spinning processes over
// reliable datagram endpoints, as an MPI on libfabric would use them.
#pragma once

#include "net/net_peers.hpp"
#include "probe.hpp"

namespace via::bench {

/// As udp_ping_pong(). Messages must be short enough to be injected.
[[nodiscard]] base::Result<std::vector<double>> fabric_ping_pong(const NetPlace& place,
                                                                 const NetPingPong& wanted);

/// Why it can not be taken with this build; empty if it can.
[[nodiscard]] std::string fabric_missing();

}  // namespace via::bench
