// SPDX-License-Identifier: BSD-3-Clause
// How much memory some processes use together: private pages, and shared memory counted once, with
// the pages that are set aside in it but that nobody has touched yet.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace via::bench {

struct MemoryUse {
    std::uint64_t private_bytes = 0;       ///< anonymous pages, each process's share of them
    std::uint64_t shared_bytes = 0;        ///< pages that memory files hold, each file once
    std::uint64_t proportional_bytes = 0;  ///< the kernel's own sum (Pss), touched pages only

    [[nodiscard]] std::uint64_t total() const noexcept { return private_bytes + shared_bytes; }
};

[[nodiscard]] base::Result<MemoryUse> memory_of(const std::vector<pid_t>& processes);

/// The value of a line "Name:   123 kB" in bytes; -1 if there is no such line.
[[nodiscard]] std::int64_t kilobyte_line(std::string_view text, std::string_view name);

}  // namespace via::bench
