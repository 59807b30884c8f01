// SPDX-License-Identifier: BSD-3-Clause
// An error: VIPL's code and a sentence for people.
#pragma once

#include <vipl.h>
#include <vipx.h>

#include <string>

namespace via {

struct Error {
    VIP_RETURN code = VIP_SUCCESS;
    std::string sentence;

    // What the library says about the calling thread's last failure.
    static Error last(VIP_RETURN code) { return {code, VipxErrorText()}; }

    // "VIP_NO_MATCH" and so on.
    const char* name() const noexcept { return VipxReturnName(code); }
};

}  // namespace via
