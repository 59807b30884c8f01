// SPDX-License-Identifier: BSD-3-Clause
// Two connected sockets, one in host a and one in host b of a lab.
#pragma once

#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "net/net_peers.hpp"

namespace via::bench {

struct HostSockets {
    base::UniqueFd a;
    base::UniqueFd b;
};

/// Waiting sockets; each wait ends after a second at the latest (EAGAIN).
[[nodiscard]] base::Result<HostSockets> connect_udp(const NetPlace& place);
[[nodiscard]] base::Result<HostSockets> connect_tcp(const NetPlace& place,
                                                    const std::string& congestion);

}  // namespace via::bench
