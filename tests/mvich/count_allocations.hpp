// SPDX-License-Identifier: BSD-3-Clause
// Replaces operator new in the program it is linked into, and counts its calls.
#pragma once

#include <cstdint>

namespace via::test {

/// Always 0 under a sanitizer.
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace via::test
