// SPDX-License-Identifier: BSD-3-Clause
// RMMT: the Registered Memory Mapping Table. The kernel agent writes it; user agents map it
// read-only and translate descriptors with it (MyVIA's UTLB): the owner its own memory, connected
// peers the targets of RDMA. No system call and no agent is involved in a look-up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cpu.hpp"

namespace via::ka {

/// Low half: index of the entry; high half: generation, so that a stale handle does not match.
/// Never 0 and never all ones, which real programs use as "none".
using MemoryHandle = std::uint32_t;
using ProtectionTag = std::uint32_t;
inline constexpr ProtectionTag null_tag = 0;
inline constexpr std::uint32_t no_arena = 0;

inline constexpr std::size_t rmmt_entries = 1U << 16;
inline constexpr std::uint32_t right_rdma_write = 1;
inline constexpr std::uint32_t right_rdma_read = 2;

[[nodiscard]] constexpr std::uint32_t handle_index(MemoryHandle handle) noexcept {
    return handle & 0xFFFF;
}
[[nodiscard]] constexpr std::uint32_t handle_generation(MemoryHandle handle) noexcept {
    return handle >> 16;
}

/// One registered region as it lies in the shared table. Written by the agent only.
struct alignas(base::cache_line) RmmtEntry {
    /// Low 32 bits: the handle while the entry is valid, 0 while it is free or being changed;
    /// high 32 bits count the changes. A reader takes it before and after the fields.
    std::atomic<std::uint64_t> stamp;
    std::atomic<std::uint64_t> address;  ///< in the owner's address space
    std::atomic<std::uint64_t> length;
    std::atomic<std::uint32_t> tag;
    std::atomic<std::uint32_t> rights;
    std::atomic<std::uint32_t> arena;  ///< kmem arena that holds the region, or no_arena
    std::atomic<std::uint32_t> reserved;
    std::atomic<std::uint64_t> arena_offset;  ///< of the region's first byte in that arena
};
static_assert(sizeof(RmmtEntry) == 64);

inline constexpr std::size_t rmmt_bytes = rmmt_entries * sizeof(RmmtEntry);

/// A table without regions.
[[nodiscard]] const RmmtEntry* empty_rmmt() noexcept;

/// A consistent copy of one entry.
struct Region {
    std::uint64_t address;
    std::uint64_t length;
    ProtectionTag tag;
    std::uint32_t rights;
    std::uint32_t arena;
    std::uint64_t arena_offset;

    [[nodiscard]] bool contains(std::uint64_t first, std::uint64_t bytes) const noexcept {
        return first >= address && bytes <= length && first - address <= length - bytes;
    }
    /// Range, rights and tag together. All of them are always looked at, so that the time it takes
    /// does not tell a peer which one was wrong. `any_tag`: the tag does not count.
    [[nodiscard]] bool permits(std::uint64_t first, std::uint64_t bytes, std::uint32_t wanted,
                               ProtectionTag own_tag, bool any_tag) const noexcept {
        const std::uint64_t offset = first - address;  // huge if it lies before the region
        std::uint32_t wrong = static_cast<std::uint32_t>(offset > length);
        wrong |= static_cast<std::uint32_t>(bytes > length - offset);
        wrong |= wanted & ~rights;
        wrong |= (tag ^ own_tag) & (any_tag ? 0U : ~0U);
        return wrong == 0;
    }
};

class RmmtView;

/// The region looked up last, good as long as its entry's stamp has not changed: one load instead
/// of a look-up.
class CachedRegion {
  public:
    [[nodiscard]] inline bool find(const RmmtView& table, MemoryHandle handle,
                                   const Region*& region) noexcept;
    /// The region if it is the one looked up last and nothing has happened to it, else null.
    [[nodiscard]] inline const Region* hit(const RmmtView& table,
                                           MemoryHandle handle) const noexcept;

  private:
    friend class RmmtView;
    std::uint64_t stamp_ = 0;
    Region region_{};
};

/// Reading side of a table, own or a peer's.
class RmmtView {
  public:
    RmmtView() = default;
    explicit RmmtView(const RmmtEntry* entries) noexcept : entries_(entries) {}

    [[nodiscard]] bool valid() const noexcept { return entries_ != nullptr; }
    [[nodiscard]] const RmmtEntry* entries() const noexcept { return entries_; }

    /// False: no such region (never registered, deregistered, stale handle).
    [[nodiscard]] bool find(MemoryHandle handle, Region& region) const noexcept {
        const RmmtEntry& entry = entries_[handle_index(handle)];
        for (;;) {
            const std::uint64_t before = entry.stamp.load(std::memory_order_acquire);
            if (static_cast<std::uint32_t>(before) != handle || handle == 0) return false;
            // Acquire on each: a new field comes with the new stamp (the writer stores with
            // release).
            region.address = entry.address.load(std::memory_order_acquire);
            region.length = entry.length.load(std::memory_order_acquire);
            region.tag = entry.tag.load(std::memory_order_acquire);
            region.rights = entry.rights.load(std::memory_order_acquire);
            region.arena = entry.arena.load(std::memory_order_acquire);
            region.arena_offset = entry.arena_offset.load(std::memory_order_acquire);
            if (entry.stamp.load(std::memory_order_relaxed) == before) return true;
        }
    }

    [[nodiscard]] const std::atomic<std::uint64_t>& stamp_of(MemoryHandle handle) const noexcept {
        return entries_[handle_index(handle)].stamp;
    }

  private:
    const RmmtEntry* entries_ = nullptr;
};

const Region* CachedRegion::hit(const RmmtView& table, MemoryHandle handle) const noexcept {
    if (static_cast<std::uint32_t>(stamp_) != handle || handle == 0) return nullptr;
    // Nothing is read behind the stamp, so no order is needed.
    return table.stamp_of(handle).load(std::memory_order_relaxed) == stamp_ ? &region_ : nullptr;
}

bool CachedRegion::find(const RmmtView& table, MemoryHandle handle,
                        const Region*& region) noexcept {
    region = &region_;
    if (hit(table, handle) != nullptr) [[likely]]
        return true;
    const std::uint64_t before = table.stamp_of(handle).load(std::memory_order_acquire);
    stamp_ = 0;
    if (!table.find(handle, region_)) return false;
    // Kept only if the entry was the same all the while.
    if (table.stamp_of(handle).load(std::memory_order_acquire) == before) stamp_ = before;
    return true;
}

}  // namespace via::ka
