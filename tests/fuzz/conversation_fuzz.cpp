// SPDX-License-Identifier: BSD-3-Clause
// Any sequence of packets, orders and completions in one conversation: nothing outside of what was
// lent is touched, nothing is touched when it is over, and everything comes back.
#include "mvich/hostile_peer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    via::test::Script script(data, size);
    via::test::HostilePeer peer(script);
    while (peer.step()) {
    }
    peer.end();
    return 0;
}
