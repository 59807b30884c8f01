// SPDX-License-Identifier: BSD-3-Clause
// What messages carry, so that each byte shows where it belongs.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "vipl/harness/conditions.hpp"

namespace via::test {

/// Bytes that tell one message from another and one offset from the next.
void fill_pattern(std::byte* data, std::size_t bytes, std::uint32_t seed);
[[nodiscard]] testing::AssertionResult has_pattern(const std::byte* data, std::size_t bytes,
                                                   std::uint32_t seed);
[[nodiscard]] testing::AssertionResult all_bytes_are(const std::byte* data, std::size_t bytes,
                                                     std::byte value);
/// The same look at memory that somebody else may be writing, which is what the target of an RDMA
/// does; not instrumented, because that race is the point.
[[nodiscard]] bool shows_pattern(const std::byte* data, std::size_t bytes, std::uint32_t seed);
[[nodiscard]] inline bool comes_to_show_pattern(const std::byte* data, std::size_t bytes,
                                                std::uint32_t seed) {
    return eventually([=] { return shows_pattern(data, bytes, seed); });
}

}  // namespace via::test
