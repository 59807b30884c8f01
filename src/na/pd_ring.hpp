// SPDX-License-Identifier: BSD-3-Clause
// MyVIA's dynamic PD cache: a short ring in the NIC's memory (small ring) and a long one in the
// host's (big ring). When the small ring is full, PDs go to the big ring, and stay behind each
// other there until the small ring has drained to the low-water mark; then they are moved over.
// So the NIC's memory bounds what it caches and not what may be posted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "na/physical_descriptor.hpp"

namespace via::na {

/// Who moves PDs over when the small ring has drained: the NIC agent itself, at once, or the host,
/// after an interrupt.
enum class Refill : std::uint8_t { AtOnce, ByHost };

class PdRing {
  public:
    /// `small_entries` is a power of two. Storage of the small ring may belong to the device.
    PdRing(std::uint32_t small_entries, std::uint32_t low_water)
        : own_small_(std::make_unique<PhysicalDescriptor[]>(small_entries)),
          small_(own_small_.get()),
          small_mask_(small_entries - 1),
          low_water_(low_water) {}
    PdRing(std::span<PhysicalDescriptor> device_memory, std::uint32_t low_water,
           Refill refill = Refill::AtOnce)
        : small_(device_memory.data()),
          small_mask_(static_cast<std::uint32_t>(device_memory.size()) - 1),
          low_water_(low_water),
          refill_(refill) {}

    void push(const PhysicalDescriptor& pd) {
        if (!spilling_ && small_count() <= small_mask_) [[likely]] {
            small_[small_tail_++ & small_mask_] = pd;
            return;
        }
        push_big(pd);
    }

    /// For `count` more, wherever they go.
    [[nodiscard]] bool has_room(std::uint32_t count) const noexcept {
        if (!spilling_ && small_count() + count <= small_mask_ + 1) [[likely]]
            return true;
        return big_count() + count <= big_.size();
    }
    void make_room(std::uint32_t count) {
        while (!has_room(count))
            grow_big();
    }

    /// PDs not yet taken by the NIC agent.
    [[nodiscard]] std::uint32_t size() const noexcept { return small_count() + big_count(); }
    [[nodiscard]] bool empty() const noexcept { return small_head_ == small_tail_; }

    /// The i-th PD from the front, i < size(). A chain longer than the small ring continues in the
    /// big one.
    [[nodiscard]] const PhysicalDescriptor& at(std::uint32_t i) const noexcept {
        if (i < small_count()) [[likely]]
            return small_[(small_head_ + i) & small_mask_];
        return big_[(big_head_ + (i - small_count())) & (big_.size() - 1)];
    }

    /// The first two PDs, if the small ring has them: a whole chain of one segment.
    [[nodiscard]] bool front_pair(PhysicalDescriptor& first,
                                  PhysicalDescriptor& second) const noexcept {
        if (small_count() < 2) return false;
        first = small_[small_head_ & small_mask_];
        second = small_[(small_head_ + 1) & small_mask_];
        return true;
    }

    /// Takes `count` PDs off the front and, unless the host does that, refills at the low-water
    /// mark. Returns PDs moved over.
    std::uint32_t pop(std::uint32_t count) noexcept {
        const std::uint32_t from_small = count < small_count() ? count : small_count();
        small_head_ += from_small;
        big_head_ += count - from_small;
        if (spilling_ && small_count() <= low_water_ && refill_ == Refill::AtOnce) [[unlikely]]
            return refill();
        return 0;
    }

    void pop_pair() noexcept {
        small_head_ += 2;
        if (spilling_ && small_count() <= low_water_ && refill_ == Refill::AtOnce) [[unlikely]]
            refill();
    }

    // For rings that the host refills.
    /// The low-water mark is reached and PDs wait: the NIC interrupts its host.
    [[nodiscard]] bool wants_refill() const noexcept {
        return spilling_ && small_count() <= low_water_;
    }
    /// PDs that are in the NIC's memory, and how many would fit.
    [[nodiscard]] std::uint32_t in_small() const noexcept { return small_count(); }
    [[nodiscard]] std::uint32_t small_entries() const noexcept { return small_mask_ + 1; }
    /// Moves over what fits. Returns PDs moved.
    std::uint32_t refill() noexcept {
        std::uint32_t moved = 0;
        while (big_count() != 0 && small_count() <= small_mask_) {
            small_[small_tail_++ & small_mask_] = big_[big_head_++ & (big_.size() - 1)];
            ++moved;
        }
        spilling_ = big_count() != 0;
        ++refills_;
        return moved;
    }

    [[nodiscard]] std::uint64_t spilled() const noexcept { return spilled_; }
    [[nodiscard]] std::uint64_t refills() const noexcept { return refills_; }

    void clear() noexcept {
        small_head_ = small_tail_;
        big_head_ = big_tail_;
        spilling_ = false;
    }

  private:
    [[nodiscard]] std::uint32_t small_count() const noexcept { return small_tail_ - small_head_; }
    [[nodiscard]] std::uint32_t big_count() const noexcept { return big_tail_ - big_head_; }

    void push_big(const PhysicalDescriptor& pd) {
        if (big_count() == big_.size()) grow_big();
        big_[big_tail_++ & (big_.size() - 1)] = pd;
        spilling_ = true;
        ++spilled_;
    }

    void grow_big() {
        const std::size_t entries =
            big_.empty() ? 2 * (small_mask_ + std::size_t{1}) : 2 * big_.size();
        std::vector<PhysicalDescriptor> larger(entries);
        const std::uint32_t count = big_count();
        for (std::uint32_t i = 0; i < count; ++i)
            larger[i] = big_[(big_head_ + i) & (big_.size() - 1)];
        big_ = std::move(larger);
        big_head_ = 0;
        big_tail_ = count;
    }

    std::unique_ptr<PhysicalDescriptor[]> own_small_;
    PhysicalDescriptor* small_;
    std::uint32_t small_mask_;
    std::uint32_t low_water_;
    Refill refill_ = Refill::AtOnce;
    std::uint32_t small_head_ = 0;
    std::uint32_t small_tail_ = 0;
    bool spilling_ = false;  ///< MyVIA's flag: PDs wait in the big ring
    std::uint32_t big_head_ = 0;
    std::uint32_t big_tail_ = 0;
    std::vector<PhysicalDescriptor> big_;
    std::uint64_t spilled_ = 0;
    std::uint64_t refills_ = 0;
};

}  // namespace via::na
