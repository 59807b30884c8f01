// SPDX-License-Identifier: BSD-3-Clause
// Memory that begins with a page: the kernel's copies and vectors of 64 bytes are faster where
// neither end of them lies across cache lines.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace via::base {

inline constexpr std::align_val_t page_alignment{4096};

struct AlignedDelete {
    void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, page_alignment); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

[[nodiscard]] inline AlignedBytes aligned_bytes(std::size_t bytes) {
    return AlignedBytes(static_cast<std::byte*>(::operator new(bytes, page_alignment)));
}

}  // namespace via::base
