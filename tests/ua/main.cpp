// SPDX-License-Identifier: BSD-3-Clause
// Every run has a kernel agent of its own, and a device that does what the tests say.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "ua/scripted_device.hpp"

int main(int argc, char** argv) {
    const std::string socket = "@viaduct/test/" + std::to_string(getpid());
    setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    setenv("VIA_AGENT_IDLE_SECONDS", "1", 1);
    testing::InitGoogleTest(&argc, argv);
    via::test::ScriptedDevice::add();
    return RUN_ALL_TESTS();
}
