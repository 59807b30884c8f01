// SPDX-License-Identifier: BSD-3-Clause
// A buddy allocator over a range of offsets, as MyVIA's kernel agent has one over pinned memory. It
// only keeps books; the memory is somebody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace via::ka {

class Buddy {
  public:
    static constexpr std::uint64_t page_bytes = 4096;

    /// `bytes` must be a power of two and at least one page.
    explicit Buddy(std::uint64_t bytes);

    struct Block {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };

    /// The lowest free block of the smallest sufficient size, aligned to its size. Empty: no room.
    [[nodiscard]] std::optional<Block> allocate(std::uint64_t bytes);
    /// What was freed; empty: no block starts there.
    std::optional<Block> free(std::uint64_t offset);
    /// Takes exactly this block. False: it is not a possible block, or not free.
    [[nodiscard]] bool restore(Block block);

    /// The allocated block that holds all of the range.
    [[nodiscard]] std::optional<Block> find(std::uint64_t offset, std::uint64_t bytes) const;

    [[nodiscard]] std::uint64_t size() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }
    [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
    [[nodiscard]] std::size_t blocks() const noexcept { return blocks_.size(); }
    /// What a request of this size takes: the next power of two, at least one page. 0: too large.
    [[nodiscard]] static std::uint64_t rounded(std::uint64_t bytes) noexcept;

  private:
    using Order = unsigned;
    [[nodiscard]] static std::uint64_t order_bytes(Order order) noexcept {
        return page_bytes << order;
    }
    [[nodiscard]] static Order order_of(std::uint64_t bytes) noexcept;
    /// Splits the free block of order `from` at `offset` until the one of order `to` at `target` is
    /// free by itself, and takes that.
    void carve(std::uint64_t offset, Order from, std::uint64_t target, Order to);

    std::uint64_t bytes_;
    std::uint64_t allocated_bytes_ = 0;
    std::vector<std::set<std::uint64_t>> free_;  // offsets, by order
    std::map<std::uint64_t, Order> blocks_;      // allocated
};

}  // namespace via::ka
