// SPDX-License-Identifier: BSD-3-Clause
// Which pages are locked in memory because registered regions lie in them (VIA_PIN_MEMORY). The
// system's own locks do not count, so pages that several regions share are counted here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.hpp"

namespace via::ka {

struct PageRange {
    std::uint64_t first = 0;  ///< address
    std::uint64_t bytes = 0;
    friend bool operator==(const PageRange&, const PageRange&) = default;
};

/// How often each page is held. Pure.
class PageCounts {
  public:
    /// What was not held before.
    std::vector<PageRange> add(PageRange range);
    /// What is not held any more.
    std::vector<PageRange> remove(PageRange range);
    [[nodiscard]] bool empty() const noexcept { return counts_.empty(); }

  private:
    void split(std::uint64_t at);
    std::map<std::uint64_t, std::size_t> counts_;  // from this address to the next key
    void tidy();
};

class PinLedger {
  public:
    /// OutOfResources names RLIMIT_MEMLOCK and its value.
    [[nodiscard]] base::Result<void> pin(std::uint64_t address, std::uint64_t bytes);
    void unpin(std::uint64_t address, std::uint64_t bytes) noexcept;

  private:
    PageCounts counts_;
};

}  // namespace via::ka
