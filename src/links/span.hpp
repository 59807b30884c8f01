// SPDX-License-Identifier: BSD-3-Clause
// A part of the stream of operations, as one packet carries it: from an offset of one operation to
// an offset of the same or a later one. What is lost is a span.
#pragma once

#include <cstdint>

namespace via::links {

struct Span {
    std::uint64_t first = 1;  ///< operation
    std::uint64_t last = 0;   ///< operation; below first: the span is empty
    std::uint32_t begin = 0;  ///< offset in the first
    std::uint32_t end = 0;    ///< offset in the last, one beyond

    [[nodiscard]] bool empty() const noexcept { return last < first; }
    friend bool operator==(const Span&, const Span&) = default;
};

}  // namespace via::links
