// SPDX-License-Identifier: BSD-3-Clause
#include "quantity.hpp"

#include <gtest/gtest.h>

#include "progress.hpp"

namespace via::bench {
namespace {

TEST(Quantity, IsShownWithThreeFigures) {
    EXPECT_EQ(show(0.1234, Quantity::OneWayMicroseconds), "0.123 µs");
    EXPECT_EQ(show(123.4, Quantity::OneWayMicroseconds), "123.4 µs");
    EXPECT_EQ(show(12'345'678, Quantity::MessagesPerSecond), "12.3 M/s");
    EXPECT_EQ(show(999, Quantity::MessagesPerSecond), "999 /s");
    EXPECT_EQ(show(31.37e9, Quantity::BytesPerSecond), "31.4 GB/s");
    EXPECT_EQ(show(28.14, Quantity::Kibibytes), "28.1 KiB");
    EXPECT_EQ(show(0.0021, Quantity::Percent), "0.002 %");
    EXPECT_EQ(show(48.24, Quantity::Percent), "48.2 %");
    EXPECT_EQ(show(4.26, Quantity::Milliseconds), "4.3 ms");
    EXPECT_EQ(show(0.4321, Quantity::CpuSecondsPerGigabyte), "0.432 s/GB");
}

TEST(Quantity, Sizes) {
    EXPECT_EQ(show_bytes(8), "8 B");
    EXPECT_EQ(show_bytes(4096), "4 KB");
    EXPECT_EQ(show_bytes(1 << 20), "1 MB");
    EXPECT_EQ(show_bytes(1500), "1500 B");
}

TEST(Progress, Seconds) {
    EXPECT_EQ(show_seconds(0.2), "0 s");
    EXPECT_EQ(show_seconds(59.4), "59 s");
    EXPECT_EQ(show_seconds(125), "2 min 05 s");
}

}  // namespace
}  // namespace via::bench
