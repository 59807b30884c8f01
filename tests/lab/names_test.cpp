// SPDX-License-Identifier: BSD-3-Clause
#include "lab/names.hpp"

#include <gtest/gtest.h>

namespace via::lab {
namespace {

TEST(LabNames, ANamespaceTellsItsLabAndHost) {
    const auto name = parse_space_name(space_name("my_lab1", "b"));
    ASSERT_TRUE(name);
    EXPECT_EQ(name->lab, "my_lab1");
    EXPECT_EQ(name->host, "b");
    const auto between = parse_space_name(space_name("x", wire));
    ASSERT_TRUE(between);
    EXPECT_EQ(between->host, wire);
}

TEST(LabNames, NamespacesOfOthersAreNotOurs) {
    for (const char* name : {"", "via-a", "via-lab-", "via-lab-x", "via-lab-x-", "via-lab--a",
                             "via-lab-x-ab", "via-lab-x-A", "my-via-lab-x-a", "via-lab-x/y-a"})
        EXPECT_FALSE(parse_space_name(name)) << name;
}

TEST(LabNames, ALabNameFitsIntoANamespaceName) {
    EXPECT_TRUE(valid_lab_name("lab"));
    EXPECT_TRUE(valid_lab_name("t12345_0"));
    for (const char* name : {"", "a-b", "../x", "x y", "1234567890123456789012345"})
        EXPECT_FALSE(valid_lab_name(name)) << name;
}

TEST(LabNames, HostsAreLetters) {
    EXPECT_EQ(host_name(0), "a");
    EXPECT_EQ(host_number("b"), 1u);
    EXPECT_FALSE(host_number("A"));
    EXPECT_FALSE(host_number("z"));
    EXPECT_FALSE(host_number(wire));
}

TEST(LabNames, DeviceNamesFitIntoTheKernels) {
    constexpr std::size_t longest = 15;
    for (const std::string& name :
         {device_name(most_links - 1), bridge_name(most_links - 1),
          port_name(most_links - 1, most_hosts - 1), relay_device_name(most_links - 1),
          inject_device_name(most_links - 1, most_hosts - 1), relay_process_name(most_links - 1)})
        EXPECT_LE(name.size(), longest) << name;
}

}  // namespace
}  // namespace via::lab
