// SPDX-License-Identifier: BSD-3-Clause
// The bare limits end, and give as many values as asked; what the values are is the machine's.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "bare/bare_limits.hpp"

namespace via::bare {
namespace {

bool all_positive(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
}

TEST(BareLimits, PingPongsGiveTheirSamples) {
    auto cores = two_cores();
    if (!cores) GTEST_SKIP() << cores.error().sentence;
    PingPongOptions options;
    options.cores = cores.value();
    options.samples = 10;
    options.round_trips = 4;
    options.warm_up_samples = 1;
    cpu_set_t before;
    CPU_ZERO(&before);
    ::sched_getaffinity(0, sizeof before, &before);
    for (auto* ping_pong : {one_line_ping_pong, two_line_ping_pong, yield_ping_pong}) {
        auto samples = ping_pong(options);
        ASSERT_TRUE(samples.ok()) << samples.error().sentence;
        EXPECT_EQ(samples.value().size(), 10U);
        EXPECT_TRUE(all_positive(samples.value()));
    }
    cpu_set_t after;
    CPU_ZERO(&after);
    ::sched_getaffinity(0, sizeof after, &after);
    EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "the caller's processors were not given back";
}

TEST(BareLimits, TwoCoresDiffer) {
    auto cores = two_cores();
    if (!cores) GTEST_SKIP() << cores.error().sentence;
    EXPECT_NE(cores.value().first, cores.value().second);
}

TEST(BareLimits, CopyGivesItsSamples) {
    CopyOptions options;
    auto cores = two_cores();
    if (cores) options.core = cores.value().first;
    options.bytes = 1000;
    options.buffers = 3;
    options.samples = 5;
    options.bytes_per_sample = 10'000;
    auto rates = copy_rate(options);
    ASSERT_TRUE(rates.ok()) << rates.error().sentence;
    EXPECT_EQ(rates.value().size(), 5U);
    EXPECT_TRUE(all_positive(rates.value()));
}

TEST(BareLimits, BadArgumentsAreErrors) {
    PingPongOptions none;
    none.samples = 0;
    EXPECT_FALSE(one_line_ping_pong(none).ok());
    PingPongOptions nowhere;
    nowhere.cores = {100'000, 100'001};
    nowhere.samples = 1;
    EXPECT_FALSE(one_line_ping_pong(nowhere).ok());
    PingPongOptions half;
    auto cores = two_cores();
    if (cores) half.cores.first = cores.value().first;
    half.cores.second = 100'000;
    half.samples = 1;
    half.deadline_seconds = 1;
    EXPECT_FALSE(one_line_ping_pong(half).ok());
    CopyOptions nothing;
    nothing.bytes = 0;
    EXPECT_FALSE(copy_rate(nothing).ok());
    CopyOptions no_core;
    no_core.core = -1;
    EXPECT_FALSE(copy_rate(no_core).ok());
}

TEST(Median, OfSamples) {
    EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
    EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_DOUBLE_EQ(median({}), 0);
}

}  // namespace
}  // namespace via::bare
