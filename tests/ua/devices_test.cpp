// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>

#include "ua/process.hpp"

using namespace via;
using namespace via::ua;

namespace {

TEST(Devices, HaveTheirOwnNames) {
    ASSERT_NE(find_device("shm0"), nullptr);
    EXPECT_EQ(find_device("shm0")->name, "shm0");
    EXPECT_EQ(find_device(""), nullptr);
    EXPECT_EQ(find_device("shm"), nullptr);
    EXPECT_EQ(find_device("shm00"), nullptr);
    EXPECT_EQ(resolve_device_name("shm0"), "shm0");
}

TEST(Devices, AreReachedByTheNamesOfOtherProviders) {
    for (const char* name :
         {"/dev/via_lo", "/dev/via_eth0", "/etc/via_lo", "/dev/clanvi0", "/dev/clanvi12", "VINIC",
          "VINIC0", "VINIC1", "nic0", "nic7", "\\\\.\\VI1"})
        EXPECT_EQ(resolve_device_name(name), "shm0") << name;
}

TEST(Devices, UnknownNamesLeadNowhere) {
    for (const char* name : {"", "eth0", "nic", "nicx", "nic0x", "VINICx", "VINIC0x",
                             "/dev/clanvix", "\\\\.\\VI", "/dev/via", "shm1", " shm0"})
        EXPECT_EQ(resolve_device_name(name), "") << name;
}

TEST(Devices, NamesCanBeMappedByTheEnvironment) {
    setenv("VINIC3", "shm0", 1);
    EXPECT_EQ(resolve_device_name("VINIC3"), "shm0");
    setenv("VINIC3", "/dev/clanvi0", 1);
    EXPECT_EQ(resolve_device_name("VINIC3"), "shm0");
    setenv("VINIC3", "eth0", 1);
    EXPECT_EQ(resolve_device_name("VINIC3"), "");
    setenv("VINIC3", "VINIC3", 1);
    EXPECT_EQ(resolve_device_name("VINIC3"), "shm0");
    unsetenv("VINIC3");
}

TEST(Devices, NamesThatLeadInACircleEnd) {
    setenv("VINIC4", "VINIC5", 1);
    setenv("VINIC5", "VINIC4", 1);
    // Anything but going round for ever.
    [[maybe_unused]] const std::string resolved = resolve_device_name("VINIC4");
    unsetenv("VINIC4");
    unsetenv("VINIC5");
}

TEST(Devices, CanBeAdded) {
    EXPECT_EQ(find_device("other0"), nullptr);
    add_device({"other0", [](Process&) -> std::unique_ptr<na::NicAgent> { return nullptr; }});
    ASSERT_NE(find_device("other0"), nullptr);
    EXPECT_EQ(resolve_device_name("other0"), "other0");
    EXPECT_EQ(find_device("shm0")->name, "shm0");
}

}  // namespace
