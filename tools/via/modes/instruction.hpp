// SPDX-License-Identifier: BSD-3-Clause
// The study's instruction structure: what the sender's program says about a message. 64 bytes, as
// the study's tables imply.
#pragma once

#include <cstdint>

#include "base/cpu.hpp"

namespace via::tool {

/// Where something lies in the sender's memory: an offset into what both map, or its address.
using Reference = std::uint64_t;

struct alignas(base::cache_line) Instruction {
    std::uint64_t number = 0;       ///< of the message
    std::uint64_t destination = 0;  ///< the other side's VI
    Reference data = 0;
    std::uint64_t bytes = 0;
    std::uint64_t further[4] = {};  ///< a descriptor has more to say; it is carried along
};
static_assert(sizeof(Instruction) == 64);

}  // namespace via::tool
