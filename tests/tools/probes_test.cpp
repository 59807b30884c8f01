// SPDX-License-Identifier: BSD-3-Clause
// The probes really try; what they find depends on the machine, but each must say something, and
// what the library cannot do without must work where its tests run at all.
#include "probes.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace via::tool {
namespace {

TEST(Probes, WhatTheLibraryNeedsWorks) {
    for (const Finding& finding : {probe_memory_file(), probe_futex(), probe_pidfd()}) {
        EXPECT_TRUE(finding.works) << finding.name << ": " << finding.detail;
        EXPECT_FALSE(finding.detail.empty()) << finding.name;
    }
}

TEST(Probes, WhatMayBeMissingSaysWhy) {
    for (const Finding& finding :
         {probe_cma(), probe_huge_pages(), probe_reserved_huge_pages(), probe_membarrier()})
        EXPECT_FALSE(finding.detail.empty()) << finding.name;
}

TEST(Probes, NoProcessIsLeft) {
    (void)probe_cma();
    (void)probe_futex();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(ResourceLimits, AreTheKernels) {
    rlimit expected{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &expected), 0);
    bool found = false;
    for (const Limit& limit : resource_limits()) {
        if (limit.name != "RLIMIT_NOFILE") continue;
        found = true;
        EXPECT_EQ(limit.now, expected.rlim_cur);
        EXPECT_EQ(limit.most, expected.rlim_max);
    }
    EXPECT_TRUE(found);
}

TEST(DescribeMachine, KnowsTheBasics) {
    const Machine machine = describe_machine();
    EXPECT_NE(machine.kernel.find("Linux"), std::string::npos);
    EXPECT_EQ(machine.page_bytes, static_cast<std::uint64_t>(getpagesize()));
    EXPECT_GT(machine.memory_bytes, 0u);
}

}  // namespace
}  // namespace via::tool
