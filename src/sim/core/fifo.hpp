// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace via::sim {

/// A queue in a ring that doubles when it is full: what it once needed it keeps, so it soon
/// allocates no more.
template <class T>
requires std::is_trivially_copyable_v<T>
class Fifo {
  public:
    [[nodiscard]] bool empty() const noexcept { return first_ == end_; }

    void push(T value) {
        if (end_ - first_ == ring_.size()) grow();
        ring_[end_++ & (ring_.size() - 1)] = value;
    }

    T pop() noexcept { return ring_[first_++ & (ring_.size() - 1)]; }

  private:
    void grow() {
        std::vector<T> larger(ring_.size() * 2);
        std::size_t count = 0;
        while (!empty())
            larger[count++] = pop();
        ring_ = std::move(larger);
        first_ = 0;
        end_ = count;
    }

    std::vector<T> ring_ = std::vector<T>(16);  // a power of two
    std::size_t first_ = 0;                     // both only ever grow
    std::size_t end_ = 0;
};

}  // namespace via::sim
