// SPDX-License-Identifier: BSD-3-Clause
// In place of fabric_peer.cpp where there was no libfabric to build it with.
#include "net/fabric_peer.hpp"

namespace via::bench {

base::Result<std::vector<double>> fabric_ping_pong(const NetPlace&, const NetPingPong&) {
    return {base::Code::NotSupported, fabric_missing()};
}

std::string fabric_missing() {
    return "install libfabric-dev and build again";
}

}  // namespace via::bench
