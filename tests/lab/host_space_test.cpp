// SPDX-License-Identifier: BSD-3-Clause
#include "lab/host_space.hpp"

#include <gtest/gtest.h>

namespace via::lab {
namespace {

TEST(TextOfFile, WhatCanNotBeReadIsEmpty) {
    EXPECT_EQ(text_of_file("/proc/no such file"), "");
    EXPECT_EQ(text_of_file("/proc"), "");
    // Opened well, it fails when it is read, as the files of a process do that has ended meanwhile.
    EXPECT_EQ(text_of_file("/proc/self/mem"), "");
}

TEST(TextOfFile, WhatCanBeReadIsThere) {
    EXPECT_NE(text_of_file("/proc/self/cmdline").find("lab_parts_test"), std::string::npos);
}

}  // namespace
}  // namespace via::lab
