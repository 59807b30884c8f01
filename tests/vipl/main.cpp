// SPDX-License-Identifier: BSD-3-Clause
// Every run has a kernel agent of its own, so that tests neither disturb each other nor a user's
// running programs, and the agent goes away a second after the last process.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/fd.hpp"
#include "vipl/harness.hpp"

namespace {

/// A UDP port that nobody has: an agent that finds its port taken asks for it again later, and has
/// a descriptor more when the other test's agent ends.
std::string free_port() {
    const via::base::UniqueFd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    socklen_t bytes = sizeof address;
    if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
        return "0";
    return std::to_string(ntohs(address.sin6_port));
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (const int code = via::test::run_peer(argc, argv); code >= 0) return code;
    const std::string socket = "@viaduct/test/" + std::to_string(getpid());
    setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    setenv("VIA_AGENT_IDLE_SECONDS", "1", 1);
    setenv("VIA_NET_PORT", free_port().c_str(), 1);
    return RUN_ALL_TESTS();
}
