// SPDX-License-Identifier: BSD-3-Clause
// Huge pages under memory that the program has allocated itself. Whoever copies out of another
// process or lends pages to a socket has to find and hold each page: 512 times for 2 MB, or once.
#pragma once

#include <cstddef>

namespace via::base {

/// How many bytes a huge page has; 0: this system has none, or they are not wanted (its own setting
/// and VIA_HUGE_PAGES).
[[nodiscard]] std::size_t huge_page_bytes() noexcept;

/// Moves each block of that size in which the range lies to a huge page, if at least half of it is
/// in use already: so memory grows twofold at most, and what lies beside the range comes along.
/// Blocks that nobody has touched yet become huge when they are touched. Contents and addresses
/// stay; what can not be moved stays as it is. Short ranges are not worth it. Gives the bytes of
/// the blocks that are huge now.
std::size_t use_huge_pages(void* address, std::size_t bytes) noexcept;

}  // namespace via::base
