// SPDX-License-Identifier: BSD-3-Clause
// Tests that hold at each reliability level.
#pragma once

#include <gtest/gtest.h>
#include <vipl.h>

#include <string>

namespace via::test {

inline constexpr VIP_RELIABILITY_LEVEL unreliable = VIP_SERVICE_UNRELIABLE;
inline constexpr VIP_RELIABILITY_LEVEL reliable_delivery = VIP_SERVICE_RELIABLE_DELIVERY;
inline constexpr VIP_RELIABILITY_LEVEL reliable_reception = VIP_SERVICE_RELIABLE_RECEPTION;

[[nodiscard]] std::string level_name(VIP_RELIABILITY_LEVEL level);

/// Tests that hold at each level derive from this; a level the device lacks is skipped.
class EachLevel : public testing::TestWithParam<VIP_RELIABILITY_LEVEL> {
  protected:
    void SetUp() override;
    [[nodiscard]] static VIP_RELIABILITY_LEVEL level() { return GetParam(); }
    [[nodiscard]] static bool breaks_on_error() { return GetParam() != unreliable; }
    [[nodiscard]] static bool reports_reception() { return GetParam() == reliable_reception; }
};

#define INSTANTIATE_EACH_LEVEL(suite)                                            \
    INSTANTIATE_TEST_SUITE_P(                                                    \
        Levels, suite,                                                           \
        testing::Values(::via::test::unreliable, ::via::test::reliable_delivery, \
                        ::via::test::reliable_reception),                        \
        [](const testing::TestParamInfo<VIP_RELIABILITY_LEVEL>& each) {          \
            return ::via::test::level_name(each.param);                          \
        })

}  // namespace via::test
