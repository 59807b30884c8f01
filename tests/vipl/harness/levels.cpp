// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/levels.hpp"

#include "vipl/harness/nic.hpp"

namespace via::test {

std::string level_name(VIP_RELIABILITY_LEVEL level) {
    switch (level) {
        case unreliable:
            return "UD";
        case reliable_delivery:
            return "RD";
        case reliable_reception:
            return "RR";
        default:
            return "level" + std::to_string(level);
    }
}

void EachLevel::SetUp() {
    const Nic nic;
    if ((nic.attributes().ReliabilityLevelSupport & level()) == 0) {
        GTEST_SKIP() << device() << " does not offer " << level_name(level());
    }
}

}  // namespace via::test
