// SPDX-License-Identifier: BSD-3-Clause
#include "ka/holdings.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/undo.hpp"

namespace via::ka {
namespace {

std::uint64_t number_of(const void* address) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace

base::Result<void> Holdings::add_arena(const KmemAllocatedReply& reply, base::UniqueFd file) {
    auto mapping = base::Mapping::map(file, reply.arena_bytes, base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    Arena arena;
    arena.file = std::move(file);
    arena.mapping = std::move(mapping).value();
    arena.tag = reply.tag;
    arena.dedicated = reply.dedicated == 1;
    arena.huge_pages = reply.huge_pages == 1;
    const auto address = number_of(arena.mapping.data());
    arenas_by_address_[address] = reply.arena;
    base::Undo unlisted([&] { arenas_by_address_.erase(address); });
    arenas_.insert_or_assign(reply.arena, std::move(arena));
    unlisted.keep();
    arena_floor_ = std::max(arena_floor_, reply.arena);
    return {};
}

base::Result<KmemBlock> Holdings::add_block(const KmemAllocatedReply& reply) {
    const auto found = arenas_.find(reply.arena);
    if (found == arenas_.end() || reply.offset + reply.bytes > found->second.mapping.size())
        return base::Result<KmemBlock>(base::Code::ProtocolViolation,
                                       "the kernel agent gave kmem in an unknown arena");
    found->second.blocks[reply.offset] = reply.bytes;
    return KmemBlock{found->second.mapping.data() + reply.offset, reply.bytes, reply.arena,
                     reply.offset};
}

std::optional<std::pair<std::uint32_t, std::uint64_t>> Holdings::locate(std::uint64_t address,
                                                                        std::uint64_t bytes) const {
    auto next = arenas_by_address_.upper_bound(address);
    if (next == arenas_by_address_.begin()) return {};
    const auto& [start, number] = *--next;
    const std::uint64_t size = arenas_.at(number).mapping.size();
    const std::uint64_t offset = address - start;
    if (offset >= size || bytes > size - offset) return {};
    return std::pair{number, offset};
}

std::optional<KmemBlock> Holdings::find_block(const void* address) const {
    const auto place = locate(number_of(address), 1);
    if (!place) return {};
    const Arena& arena = arenas_.at(place->first);
    const auto block = arena.blocks.find(place->second);
    if (block == arena.blocks.end()) return {};
    return KmemBlock{arena.mapping.data() + block->first, block->second, place->first,
                     block->first};
}

void Holdings::remove_block(std::uint32_t number, std::uint64_t offset, bool arena_released) {
    const auto found = arenas_.find(number);
    if (found == arenas_.end()) return;
    Arena& arena = found->second;
    const auto block = arena.blocks.extract(offset);
    if (arena_released) {
        arenas_by_address_.erase(number_of(arena.mapping.data()));
        arenas_.erase(found);
    } else if (block && !arena.huge_pages) {
        // Pages of a huge-page arena stay until it goes; they were its own from the start.
        if (auto given = base::release_range(arena.file, offset, block.mapped()); !given)
            base::log(base::LogLevel::Warning, given.error().sentence);
    }
}

const Holdings::Arena* Holdings::find_arena(std::uint32_t arena) const {
    const auto found = arenas_.find(arena);
    return found == arenas_.end() ? nullptr : &found->second;
}

}  // namespace via::ka
