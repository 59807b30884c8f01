// SPDX-License-Identifier: BSD-3-Clause
// How many others use an object of a program: one that is in use is not closed (-FI_EBUSY).
#pragma once

#include <atomic>
#include <cstdint>

namespace via::ofi {

class References {
  public:
    void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
    void remove() noexcept { count_.fetch_sub(1, std::memory_order_release); }
    [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

  private:
    std::atomic<std::uint32_t> count_{0};
};

/// One of them, as long as it lives. Null: of nothing.
class Reference {
  public:
    explicit Reference(References* references) noexcept : references_(references) {
        if (references_ != nullptr) references_->add();
    }
    ~Reference() {
        if (references_ != nullptr) references_->remove();
    }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;

  private:
    References* references_;
};

}  // namespace via::ofi
