// SPDX-License-Identifier: BSD-3-Clause
#include "ka/kmem.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bit>
#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/memory_file.hpp"

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

namespace via::ka {
namespace {

using base::Code;
using base::Result;
using base::UniqueFd;

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
constexpr unsigned two_megabyte_pages = 21U << 26;  // log2 of the size, as memfd_create wants it
constexpr std::uint64_t largest_arena = std::uint64_t{1} << 46;  // beyond any address space

Result<UniqueFd> make_huge_file(std::uint64_t bytes) {
    UniqueFd file(memfd_create("viaduct-kmem",
                               MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | two_megabyte_pages));
    if (!file.valid()) return base::system_error(errno, "cannot create huge-page memory");
    if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
        return base::system_error(errno, "cannot size huge-page memory");
    if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return base::system_error(errno, "cannot seal huge-page memory");
    return file;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

}  // namespace

bool Kmem::huge_pages_free(std::uint64_t bytes) {
    std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    std::uint64_t pages = 0;
    return file >> pages && pages > 0 && pages >= bytes / huge_page_bytes;
}

void Kmem::set_floor(std::uint32_t arena) noexcept {
    if (arena > last_arena_) last_arena_ = arena;
}

Result<std::uint32_t> Kmem::make_arena(std::uint64_t bytes, ProtectionTag tag, bool dedicated,
                                       bool huge_pages) {
    if (arenas_.size() >= limits_.arenas)
        return Result<std::uint32_t>(Code::OutOfResources,
                                     "the process has its " + std::to_string(limits_.arenas) +
                                         " kmem arenas (limit of the kernel agent)");
    if (bytes > limits_.kmem_bytes || arena_bytes_ > limits_.kmem_bytes - bytes)
        return Result<std::uint32_t>(
            Code::OutOfResources, "the process has " + std::to_string(arena_bytes_) +
                                      " bytes of kmem and asks for " + std::to_string(bytes) +
                                      " more; the limit is " + std::to_string(limits_.kmem_bytes));
    if (last_arena_ == std::numeric_limits<std::uint32_t>::max())
        return Result<std::uint32_t>(Code::OutOfResources,
                                     "the numbers of kmem arenas are used up");

    Arena arena;
    arena.tag = tag;
    arena.dedicated = dedicated;
    const std::uint64_t huge_bytes = round_up(bytes, huge_page_bytes);
    if (huge_pages && settings_.huge_pages && huge_pages_free(huge_bytes)) {
        if (auto file = make_huge_file(huge_bytes); file) {
            arena.file = share(std::move(file).value());
            arena.bytes = huge_bytes;
            arena.huge_pages = true;
        }
    }
    if (!arena.file) {
        auto file = base::create_memory_file("viaduct-kmem", bytes, base::Backing::Sparse);
        if (!file) return std::move(file).error();
        arena.file = share(std::move(file).value());
        arena.bytes = bytes;
    }
    if (!dedicated) arena.buddy.emplace(arena.bytes);
    arena_bytes_ += arena.bytes;
    const std::uint32_t number = ++last_arena_;
    arenas_.emplace(number, std::move(arena));
    return number;
}

Result<Kmem::Allocation> Kmem::allocate(std::uint64_t bytes, ProtectionTag tag, bool huge_pages) {
    if (bytes == 0)
        return Result<Allocation>(Code::InvalidArgument, "kmem of 0 bytes was asked for");
    if (bytes > largest_arena)
        return Result<Allocation>(Code::OutOfResources,
                                  "no memory has room for " + std::to_string(bytes) + " bytes");
    const std::uint64_t usual = std::bit_floor(settings_.arena_bytes);
    Allocation result;
    if (Buddy::rounded(bytes) > usual) {
        auto made = make_arena(round_up(bytes, Buddy::page_bytes), tag, true, huge_pages);
        if (!made) return std::move(made).error();
        Arena& arena = arenas_.at(made.value());
        arena.block_bytes = arena.bytes;
        result = {made.value(), {0, arena.bytes}, true};
    } else {
        for (auto& [number, arena] : arenas_) {
            if (arena.dedicated || arena.tag != tag) continue;
            if (const auto block = arena.buddy->allocate(bytes)) {
                result = {number, *block, false};
                break;
            }
        }
        if (result.arena == no_arena) {
            auto made = make_arena(usual, tag, false, huge_pages);
            if (!made) return std::move(made).error();
            const auto block = arenas_.at(made.value()).buddy->allocate(bytes);
            result = {made.value(), *block, true};
        }
    }
    allocated_bytes_ += result.block.bytes;
    return result;
}

std::optional<Buddy::Block> Kmem::block_of(const Arena& arena, std::uint64_t offset,
                                           std::uint64_t bytes) {
    if (!arena.dedicated) return arena.buddy->find(offset, bytes);
    if (bytes > arena.block_bytes || offset > arena.block_bytes - bytes) return {};
    return Buddy::Block{0, arena.block_bytes};
}

Result<Kmem::Freed> Kmem::free(std::uint32_t number, std::uint64_t offset) {
    const auto found = arenas_.find(number);
    const auto block = found == arenas_.end() ? std::nullopt : block_of(found->second, offset, 1);
    if (!block || block->offset != offset)
        return Result<Freed>(Code::InvalidArgument, "no kmem block starts there");
    Arena& arena = found->second;
    if (const auto regions = arena.regions.find(offset); regions != arena.regions.end())
        return Result<Freed>(Code::InvalidState,
                             std::to_string(regions->second) +
                                 " regions are still registered in the kmem block; deregister them "
                                 "first");
    if (arena.dedicated)
        arena.block_bytes = 0;
    else
        arena.buddy->free(offset);
    allocated_bytes_ -= block->bytes;
    if (arena.dedicated || arena.buddy->empty()) {
        arena_bytes_ -= arena.bytes;
        arenas_.erase(found);
        return Freed::ReleasedArena;
    }
    return Freed::KeepArena;
}

Result<void> Kmem::restore_arena(std::uint32_t number, UniqueFd file, std::uint64_t bytes,
                                 ProtectionTag tag, bool dedicated) {
    const auto refuse = [](Code code, std::string why) {
        return Result<void>(code, "cannot restore a kmem arena: " + std::move(why));
    };
    if (number == no_arena || arenas_.contains(number))
        return refuse(Code::InvalidArgument, "its number is taken");
    if (arenas_.size() >= limits_.arenas || bytes > limits_.kmem_bytes ||
        arena_bytes_ > limits_.kmem_bytes - bytes)
        return refuse(Code::OutOfResources, "beyond the limits of a process");
    if (bytes > largest_arena || bytes % Buddy::page_bytes != 0 ||
        (!dedicated && !std::has_single_bit(bytes)))
        return refuse(Code::InvalidArgument, "an impossible size");
    if (auto verified = base::verify_memory_file(file, bytes); !verified) return verified;
    struct statfs system {};
    if (fstatfs(file.get(), &system) != 0) return base::system_error(errno, "cannot stat an arena");
    Arena arena;
    arena.huge_pages = static_cast<std::uint64_t>(system.f_type) == HUGETLBFS_MAGIC;
    if (!arena.huge_pages && static_cast<std::uint64_t>(system.f_type) != TMPFS_MAGIC)
        return refuse(Code::InvalidArgument, "its file is not a memfd");
    arena.file = share(std::move(file));
    arena.bytes = bytes;
    arena.tag = tag;
    arena.dedicated = dedicated;
    if (!dedicated) arena.buddy.emplace(bytes);
    arena_bytes_ += bytes;
    set_floor(number);
    arenas_.emplace(number, std::move(arena));
    return {};
}

Result<void> Kmem::restore_block(std::uint32_t number, Buddy::Block block) {
    const auto found = arenas_.find(number);
    if (found == arenas_.end())
        return Result<void>(Code::InvalidArgument, "cannot restore a kmem block: no such arena");
    Arena& arena = found->second;
    bool taken = false;
    if (arena.dedicated) {
        taken = arena.block_bytes == 0 && block.offset == 0 && block.bytes == arena.bytes;
        if (taken) arena.block_bytes = block.bytes;
    } else {
        taken = arena.buddy->restore(block);
    }
    if (!taken)
        return Result<void>(Code::InvalidArgument, "cannot restore a kmem block: it is not free");
    allocated_bytes_ += block.bytes;
    return {};
}

const Kmem::Arena* Kmem::find(std::uint32_t number) const {
    const auto found = arenas_.find(number);
    return found == arenas_.end() ? nullptr : &found->second;
}

bool Kmem::add_region(std::uint32_t number, std::uint64_t offset, std::uint64_t bytes) {
    const auto found = arenas_.find(number);
    if (found == arenas_.end()) return false;
    const auto block = block_of(found->second, offset, bytes);
    if (!block) return false;
    ++found->second.regions[block->offset];
    return true;
}

void Kmem::remove_region(std::uint32_t number, std::uint64_t offset, std::uint64_t bytes) {
    const auto found = arenas_.find(number);
    if (found == arenas_.end()) return;
    const auto block = block_of(found->second, offset, bytes);
    if (!block) return;
    const auto counted = found->second.regions.find(block->offset);
    if (counted != found->second.regions.end() && --counted->second == 0)
        found->second.regions.erase(counted);
}

}  // namespace via::ka
