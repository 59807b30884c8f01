// SPDX-License-Identifier: BSD-3-Clause
// Every run has a kernel agent of its own, so that tests neither disturb each other nor a user's
// running programs, and the agent goes away a second after the last process.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "vipl/harness.hpp"

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (const int code = via::test::run_peer(argc, argv); code >= 0) return code;
    const std::string socket = "@viaduct/test/" + std::to_string(getpid());
    setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    setenv("VIA_AGENT_IDLE_SECONDS", "1", 1);
    return RUN_ALL_TESTS();
}
