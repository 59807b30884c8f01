// SPDX-License-Identifier: BSD-3-Clause
// Under which conditions the tests run: the device, how much of it, how long anything may take.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <vipl.h>
#include <vipx.h>

#include <chrono>
#include <ostream>
#include <string>

// GoogleTest prints codes by name; found by argument-dependent lookup, hence global.
inline void PrintTo(VIP_RETURN code, std::ostream* out) {
    *out << VipxReturnName(code);
}
void PrintTo(VIP_VI_STATE state, std::ostream* out);
void PrintTo(VIP_ERROR_CODE code, std::ostream* out);

namespace via::test {

using Clock = std::chrono::steady_clock;

/// How long anything may take before a test gives up. No passing test waits this long.
inline constexpr VIP_ULONG patience_ms = 20000;
inline constexpr std::chrono::milliseconds patience{patience_ms};
/// The other way to write "for ever" (the Windows headers' value).
inline constexpr VIP_ULONG infinite_32 = 0xFFFFFFFFUL;

/// The device under test: VIA_TEST_DEVICE, shm0 unless told.
[[nodiscard]] const char* device();
/// Is it a simulated NIC? All of its hosts are in one process.
[[nodiscard]] bool simulated();
#define NEEDS_TWO_PROCESSES()                                  \
    if (::via::test::simulated())                              \
    GTEST_SKIP() << "the hosts of a simulated NIC are in one " \
                    "process"
/// Message memory of the tests: VIA_TEST_MEMORY=heap|kmem, heap unless told.
[[nodiscard]] bool use_kmem();
/// Fewer under a sanitizer.
[[nodiscard]] unsigned rounds(unsigned wanted);
/// Whether to use up tens of thousands of objects at the kernel agent. VIA_TEST_LIMITS=0: no, since
/// a limit does not depend on how data moves; nor under a sanitizer.
[[nodiscard]] bool try_limits();

/// Calls `condition` until it holds; false when patience has run out.
template <typename Condition>
[[nodiscard]] bool eventually(Condition&& condition) {
    const auto deadline = Clock::now() + patience;
    for (unsigned turn = 0;; ++turn) {
        if (condition()) return true;
        if (turn % 64 == 63) {
            if (Clock::now() > deadline) return false;
            sched_yield();
        }
    }
}

[[nodiscard]] testing::AssertionResult vip_returned(const char* expected_text,
                                                    const char* call_text, VIP_RETURN expected,
                                                    VIP_RETURN actual);
#define EXPECT_VIP(expected, call) EXPECT_PRED_FORMAT2(::via::test::vip_returned, expected, call)
#define ASSERT_VIP(expected, call) ASSERT_PRED_FORMAT2(::via::test::vip_returned, expected, call)

/// For what the harness itself can not do without.
[[noreturn]] void fail_with(const std::string& what, VIP_RETURN code);

}  // namespace via::test
