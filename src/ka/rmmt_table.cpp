// SPDX-License-Identifier: BSD-3-Clause
#include "ka/rmmt_table.hpp"

#include <string>
#include <utility>

namespace via::ka {

const RmmtEntry* empty_rmmt() noexcept {
    static const RmmtEntry entries[rmmt_entries]{};  // zeros that no page is taken for
    return entries;
}

using base::Code;
using base::Result;

Result<RmmtTable> RmmtTable::create(Random random, std::uint32_t epoch) {
    RmmtTable table;
    auto file = base::create_memory_file("viaduct-rmmt", rmmt_bytes, base::Backing::Sparse,
                                         base::Sharing::OwnerWrites);
    if (!file) return std::move(file).error();
    table.file_ = share(std::move(file).value());
    auto mapping = base::Mapping::map(*table.file_, rmmt_bytes, base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    table.mapping_ = std::move(mapping).value();
    if (auto sealed = base::seal_future_writes(*table.file_); !sealed)
        return std::move(sealed).error();
    table.generations_ = std::make_unique<std::array<std::uint16_t, rmmt_entries>>();
    table.random_ = std::move(random);
    table.first_change_ = std::uint64_t{epoch & 0xFFF} << 20;
    return table;
}

Result<void> RmmtTable::make_page(std::uint32_t index) {
    const std::size_t page = index / entries_per_page;
    if (pages_[page]) return {};
    // Touching a page that does not exist could kill the agent when the system is full.
    if (auto made = base::allocate_range(*file_, page * page_bytes, page_bytes); !made) return made;
    pages_[page] = true;
    return {};
}

void RmmtTable::write(std::uint32_t index, MemoryHandle handle, const Region* region) noexcept {
    RmmtEntry& entry = entries()[index];
    const std::uint64_t before = entry.stamp.load(std::memory_order_relaxed);
    const std::uint64_t change = ((before == 0 ? first_change_ : before >> 32) + 1) & 0xFFFF'FFFF;
    // The fields are stored with release and read with acquire order: who sees one new field also
    // sees that the entry was invalidated before, and discards what it read.
    entry.stamp.store(change << 32, std::memory_order_relaxed);
    if (region == nullptr) return;
    entry.address.store(region->address, std::memory_order_release);
    entry.length.store(region->length, std::memory_order_release);
    entry.tag.store(region->tag, std::memory_order_release);
    entry.rights.store(region->rights, std::memory_order_release);
    entry.arena.store(region->arena, std::memory_order_release);
    entry.arena_offset.store(region->arena_offset, std::memory_order_release);
    entry.stamp.store(change << 32 | handle, std::memory_order_release);
}

bool RmmtTable::contains(MemoryHandle handle) const noexcept {
    const std::uint32_t index = handle_index(handle);
    return used_[index] && (*generations_)[index] == handle_generation(handle);
}

Result<MemoryHandle> RmmtTable::add(const Region& region) {
    while (next_fresh_ <= capacity && ever_used_[next_fresh_])
        ++next_fresh_;
    const bool fresh_left = next_fresh_ <= capacity;
    std::uint32_t index = 0;
    if (!freed_.empty() && (freed_.size() >= resting_entries || !fresh_left)) {
        index = freed_.front();
        freed_.pop_front();
    } else if (fresh_left) {
        index = next_fresh_;
        if (auto made = make_page(index); !made) return std::move(made).error();
        ++next_fresh_;
    } else {
        return Result<MemoryHandle>(
            Code::OutOfResources,
            "all " + std::to_string(capacity) + " entries of this process's RMMT are in use");
    }
    std::uint16_t& generation = (*generations_)[index];
    // Any but the last one; the last one of an entry that is new is 0, which is as good as any.
    generation = static_cast<std::uint16_t>(generation + 1 + random_() % 0xFFFF);
    ever_used_[index] = true;
    used_[index] = true;
    ++used_count_;
    const MemoryHandle handle = static_cast<MemoryHandle>(generation) << 16 | index;
    write(index, handle, &region);
    return handle;
}

Result<void> RmmtTable::restore(MemoryHandle handle, const Region& region) {
    const std::uint32_t index = handle_index(handle);
    if (index == 0 || index > capacity)
        return Result<void>(Code::InvalidArgument, "an impossible memory handle");
    if (ever_used_[index])
        return Result<void>(Code::InvalidArgument, "the memory handle's entry is taken");
    if (auto made = make_page(index); !made) return made;
    (*generations_)[index] = static_cast<std::uint16_t>(handle_generation(handle));
    ever_used_[index] = true;
    used_[index] = true;
    ++used_count_;
    write(index, handle, &region);
    return {};
}

Result<void> RmmtTable::remove(MemoryHandle handle) {
    if (!contains(handle))
        return Result<void>(Code::InvalidArgument, "the memory handle names no registered region");
    const std::uint32_t index = handle_index(handle);
    write(index, 0, nullptr);
    used_[index] = false;
    --used_count_;
    freed_.push_back(index);
    return {};
}

Result<void> RmmtTable::change(MemoryHandle handle, const Region& region) {
    if (!contains(handle))
        return Result<void>(Code::InvalidArgument, "the memory handle names no registered region");
    write(handle_index(handle), handle, &region);
    return {};
}

}  // namespace via::ka
