// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/gauges.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

namespace via::mvich {
namespace {

Gauges some(std::uint64_t number) {
    Gauges gauges;
    gauges.unexpected_now = number;
    gauges.vbufs_in_use = 2 * number;
    gauges.vbuf_regions = 3 * number;
    gauges.registered_bytes = 4 * number;
    gauges.registration_hits = 5 * number;
    gauges.registration_misses = 6 * number;
    gauges.registration_refused = 7 * number;
    gauges.registration_evicted = 8 * number;
    gauges.connections_in_host = 9 * number;
    gauges.connections_between_hosts = 10 * number;
    gauges.least_credits = 100 - number;
    return gauges;
}

TEST(Gauges, AreSummedUpOverDevices) {
    base::MessageCounters page;
    auto one = std::make_unique<GaugeShare>(page);
    auto two = std::make_unique<GaugeShare>(page);
    EXPECT_EQ(page.devices.get(), 2U);
    EXPECT_EQ(page.least_credits.get(), 0U) << "there is no connection";
    one->tell(some(1));
    two->tell(some(10));
    EXPECT_EQ(page.unexpected_now.get(), 11U);
    EXPECT_EQ(page.vbufs_in_use.get(), 22U);
    EXPECT_EQ(page.vbuf_regions.get(), 33U);
    EXPECT_EQ(page.registered_bytes.get(), 44U);
    EXPECT_EQ(page.registration_hits.get(), 55U);
    EXPECT_EQ(page.connections_in_host.get(), 99U);
    EXPECT_EQ(page.connections_between_hosts.get(), 110U);
    EXPECT_EQ(page.least_credits.get(), 90U) << "of the connection that has fewest";
    // The last word counts, not the sum of all.
    two->tell(some(2));
    EXPECT_EQ(page.unexpected_now.get(), 3U);
    EXPECT_EQ(page.least_credits.get(), 98U);

    two.reset();
    EXPECT_EQ(page.devices.get(), 1U);
    EXPECT_EQ(page.unexpected_now.get(), 1U) << "what was held is gone";
    EXPECT_EQ(page.registration_misses.get(), 18U) << "what was counted stays";
    EXPECT_EQ(page.registration_refused.get(), 21U);
    EXPECT_EQ(page.registration_evicted.get(), 24U);
    one.reset();
    EXPECT_EQ(page.devices.get(), 0U);
    EXPECT_EQ(page.vbufs_in_use.get(), 0U);
    EXPECT_EQ(page.connections_in_host.get(), 0U);
}

TEST(Gauges, OfAChildAreItsOwn) {
    base::MessageCounters page;
    GaugeShare parents(page);
    parents.tell(some(5));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        base::MessageCounters own_page;
        GaugeShare own(own_page);
        own.tell(some(1));
        _exit(own_page.devices.get() == 1 && own_page.unexpected_now.get() == 1 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(page.unexpected_now.get(), 5U);
}

}  // namespace
}  // namespace via::mvich
