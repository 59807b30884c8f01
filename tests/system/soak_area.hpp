// SPDX-License-Identifier: BSD-3-Clause
// Registered memory of the soak. All of it is a pattern of its place before a round; after it, it
// is what the plan says or still that pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "system/soak_plan.hpp"
#include "vipl/harness.hpp"

namespace via::test {

/// Registered memory whose every byte is known.
class Area {
  public:
    Area(Nic& nic, VIP_PROTECTION_HANDLE tag, std::uint32_t bytes, bool kmem, std::uint32_t shift,
         std::uint64_t canary);
    Area(const Area&) = delete;
    Area& operator=(const Area&) = delete;
    ~Area();

    [[nodiscard]] std::byte* at(std::uint32_t offset) const { return base_ + offset; }
    [[nodiscard]] VIP_MEM_HANDLE handle() const { return handle_; }

    void put(const Extent& extent) const;
    void check(const Extent& extent, const std::string& what) const;
    /// Everything is as it was but for the extents; behind them only a page is looked at unless the
    /// whole area is asked for.
    void check_all(std::vector<Extent> extents, bool whole, const std::string& what) const;
    void restore(const std::vector<Extent>& extents) const;

  private:
    Nic& nic_;
    std::uint32_t bytes_;
    bool kmem_;
    std::uint64_t canary_;
    std::unique_ptr<std::byte[]> heap_;
    std::byte* base_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
};

}  // namespace via::test
