// SPDX-License-Identifier: BSD-3-Clause
// The roles "send_stream" and "take_stream": one end sends, the other looks at every byte. Which
// messages may still come is told on a second, reliable connection, so that no message finds an
// empty queue and a lost one holds nobody up.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "vipl/harness.hpp"

namespace via::test {

/// What both ends are told first.
struct StreamTask {
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    std::uint32_t message_bytes = 65536;
    std::uint64_t bytes = 0;         ///< at least so many, and
    std::uint32_t milliseconds = 0;  ///< at least for so long
};

/// What they answer: zeros once a second as long as it goes on, a one and this at the end. They
/// meet the test when they are connected, and once more before they close.
struct StreamSent {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    base::Nanoseconds time = 0;
};
struct StreamTaken {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t missing = 0;  ///< of those sent
    base::Nanoseconds longest_pause = 0;
};

}  // namespace via::test
