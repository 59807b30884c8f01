// SPDX-License-Identifier: BSD-3-Clause
// A number with one writer at a time and any readers.
#pragma once

#include <atomic>
#include <cstdint>

namespace via::base {

class Counter {
  public:
    void add(std::uint64_t amount = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t get() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<std::uint64_t> value_{0};
};

}  // namespace via::base
