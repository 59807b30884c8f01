// SPDX-License-Identifier: BSD-3-Clause
#include "ka/buddy.hpp"

#include <bit>

namespace via::ka {

Buddy::Buddy(std::uint64_t bytes) : bytes_(bytes), free_(order_of(bytes) + 1) {
    free_.back().insert(0);
}

std::uint64_t Buddy::rounded(std::uint64_t bytes) noexcept {
    if (bytes <= page_bytes) return page_bytes;
    if (bytes > std::uint64_t{1} << 63) return 0;
    return std::bit_ceil(bytes);
}

Buddy::Order Buddy::order_of(std::uint64_t bytes) noexcept {
    return static_cast<Order>(std::countr_zero(bytes) - std::countr_zero(page_bytes));
}

void Buddy::carve(std::uint64_t offset, Order from, std::uint64_t target, Order to) {
    free_[from].erase(offset);
    while (from > to) {
        --from;
        const std::uint64_t middle = offset + order_bytes(from);
        if (target >= middle) {
            free_[from].insert(offset);
            offset = middle;
        } else {
            free_[from].insert(middle);
        }
    }
    blocks_.emplace(offset, to);
    allocated_bytes_ += order_bytes(to);
}

std::optional<Buddy::Block> Buddy::allocate(std::uint64_t bytes) {
    const std::uint64_t wanted = rounded(bytes);
    if (wanted == 0 || wanted > bytes_) return {};
    const Order order = order_of(wanted);
    for (Order from = order; from < free_.size(); ++from) {
        if (free_[from].empty()) continue;
        const std::uint64_t offset = *free_[from].begin();
        carve(offset, from, offset, order);
        return Block{offset, wanted};
    }
    return {};
}

std::optional<Buddy::Block> Buddy::free(std::uint64_t offset) {
    const auto found = blocks_.find(offset);
    if (found == blocks_.end()) return {};
    Order order = found->second;
    const Block freed{offset, order_bytes(order)};
    blocks_.erase(found);
    allocated_bytes_ -= freed.bytes;
    while (order + 1 < free_.size()) {
        const std::uint64_t buddy = offset ^ order_bytes(order);
        if (free_[order].erase(buddy) == 0) break;
        offset &= ~order_bytes(order);
        ++order;
    }
    free_[order].insert(offset);
    return freed;
}

bool Buddy::restore(Block block) {
    if (block.bytes == 0 || rounded(block.bytes) != block.bytes || block.bytes > bytes_ ||
        block.offset % block.bytes != 0 || block.offset >= bytes_)
        return false;
    const Order order = order_of(block.bytes);
    for (Order from = order; from < free_.size(); ++from) {
        const std::uint64_t holder = block.offset & ~(order_bytes(from) - 1);
        if (!free_[from].contains(holder)) continue;
        carve(holder, from, block.offset, order);
        return true;
    }
    return false;
}

std::optional<Buddy::Block> Buddy::find(std::uint64_t offset, std::uint64_t bytes) const {
    auto next = blocks_.upper_bound(offset);
    if (next == blocks_.begin()) return {};
    const auto& [start, order] = *--next;
    const Block block{start, order_bytes(order)};
    const std::uint64_t skipped = offset - start;
    if (skipped >= block.bytes || bytes > block.bytes - skipped) return {};
    return block;
}

}  // namespace via::ka
