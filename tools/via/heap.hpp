// SPDX-License-Identifier: BSD-3-Clause
// Memory for messages, as programs that care about speed take it from the heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace via::tool {

struct GiveBack {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

/// All zero and touched. Whole pages; if it is large whole blocks of 2 MB, so that it can lie on
/// huge pages.
struct HeapMemory {
    std::unique_ptr<std::byte[], GiveBack> data;  ///< null: there is no more
    std::size_t bytes = 0;

    [[nodiscard]] static HeapMemory take(std::size_t at_least) {
        constexpr std::size_t page = 4096;
        constexpr std::size_t block = std::size_t{2} << 20;
        const std::size_t unit = at_least >= block / 8 ? block : page;
        HeapMemory memory;
        memory.bytes = (std::max<std::size_t>(at_least, 1) + unit - 1) / unit * unit;
        memory.data.reset(static_cast<std::byte*>(std::aligned_alloc(unit, memory.bytes)));
        if (memory.data != nullptr) std::memset(memory.data.get(), 0, memory.bytes);
        return memory;
    }
};

}  // namespace via::tool
