// SPDX-License-Identifier: BSD-3-Clause
// A queue that keeps its slots: what is pushed finds the memory of what was popped, so that nothing
// is allocated, made or destroyed while it is in use. It grows when it is full.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace via::links {

template <class T>
class Ring {
  public:
    [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
    [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return slots_[(head_ + i) & mask()]; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
        return slots_[(head_ + i) & mask()];
    }
    [[nodiscard]] T& front() noexcept { return (*this)[0]; }
    [[nodiscard]] const T& front() const noexcept { return (*this)[0]; }
    [[nodiscard]] T& back() noexcept { return slots_[(tail_ - 1) & mask()]; }
    /// A slot at the end, with whatever was in it before.
    [[nodiscard]] T& push() {
        if (size() == capacity_) [[unlikely]]
            grow();
        return slots_[tail_++ & mask()];
    }
    void pop_front() noexcept { ++head_; }
    void pop_back() noexcept { --tail_; }
    void clear() noexcept { head_ = tail_; }

  private:
    [[nodiscard]] std::size_t mask() const noexcept { return capacity_ - 1; }
    void grow() {
        std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
        const std::size_t count = size();
        for (std::size_t i = 0; i < count; ++i)
            larger[i] = std::move((*this)[i]);
        slots_ = std::move(larger);
        capacity_ = slots_.size();
        head_ = 0;
        tail_ = count;
    }

    std::vector<T> slots_;
    /// Of them: none, or a power of two. A vector has to divide to tell.
    std::size_t capacity_ = 0;
    std::size_t head_ = 0;
    std::size_t tail_ = 0;
};

}  // namespace via::links
