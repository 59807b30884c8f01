// SPDX-License-Identifier: BSD-3-Clause
// How a soak ends that went wrong: with an exception that says what.
#pragma once

#include <stdexcept>
#include <string>

#include "vipl/harness.hpp"

namespace via::test {

[[noreturn]] inline void stop(const std::string& what) {
    throw std::runtime_error(what);
}

inline void expect(VIP_RETURN wanted, VIP_RETURN got, const std::string& what) {
    if (wanted != got) stop(what + " returned " + VipxReturnName(got) + ": " + VipxErrorText());
}

}  // namespace via::test
