// SPDX-License-Identifier: BSD-3-Clause
#include "ka/process.hpp"

#include <utility>

namespace via::ka {

using base::Code;
using base::Result;

Result<std::unique_ptr<Process>> Process::create(ProcessNumber number, const AttachRequest& attach,
                                                 const KmemSettings& kmem, const Limits& limits,
                                                 RmmtTable::Random random, base::Nanoseconds now) {
    auto table = RmmtTable::create(std::move(random), attach.rmmt_epoch);
    if (!table) return std::move(table).error();
    std::unique_ptr<Process> process(new Process(std::move(table).value(), kmem, limits));
    process->number_ = number;
    process->instance_ = attach.instance;
    process->rmmt_epoch_ = attach.rmmt_epoch;
    process->program_ = attach.program.text();
    process->since_ = now;
    process->restoring = attach.restoring == 1;
    process->kmem_.set_floor(attach.arena_floor);
    return process;
}

Region Process::published(const Registered& registered) const {
    const RegisterRequest& request = registered.request;
    Region region{request.address, request.bytes, request.tag, request.rights, no_arena, 0};
    // An arena is only shown to peers of its own tag; with another tag it is ordinary memory.
    const Kmem::Arena* arena = registered.in_block ? kmem_.find(request.arena) : nullptr;
    if (arena != nullptr && arena->tag == request.tag) {
        region.arena = request.arena;
        region.arena_offset = request.arena_offset;
    }
    return region;
}

Result<MemoryHandle> Process::register_memory(const RegisterRequest& request) {
    if (regions_.size() >= limits_.regions)
        return Result<MemoryHandle>(
            Code::OutOfResources, "the process has registered " + std::to_string(limits_.regions) +
                                      " regions (limit of the kernel agent)");
    Registered registered{request, false};
    if (request.arena != no_arena)
        registered.in_block = kmem_.add_region(request.arena, request.arena_offset, request.bytes);
    auto handle = table_.add(published(registered));
    if (!handle) {
        if (registered.in_block)
            kmem_.remove_region(request.arena, request.arena_offset, request.bytes);
        return handle;
    }
    registered_bytes_ += request.bytes;
    regions_.emplace(handle.value(), registered);
    return handle;
}

Result<void> Process::restore_region(const RegionRecord& record) {
    const RegisterRequest& request = record.region;
    if (regions_.size() >= limits_.regions)
        return Result<void>(Code::OutOfResources, "too many regions to restore");
    Registered registered{request, false};
    if (request.arena != no_arena)
        registered.in_block = kmem_.add_region(request.arena, request.arena_offset, request.bytes);
    if (auto restored = table_.restore(record.handle, published(registered)); !restored) {
        if (registered.in_block)
            kmem_.remove_region(request.arena, request.arena_offset, request.bytes);
        return restored;
    }
    registered_bytes_ += request.bytes;
    regions_.emplace(record.handle, registered);
    return {};
}

Result<void> Process::deregister_memory(MemoryHandle handle) {
    if (auto removed = table_.remove(handle); !removed) return removed;
    const auto found = regions_.find(handle);
    const RegisterRequest& request = found->second.request;
    if (found->second.in_block)
        kmem_.remove_region(request.arena, request.arena_offset, request.bytes);
    registered_bytes_ -= request.bytes;
    regions_.erase(found);
    return {};
}

Result<Region> Process::region(MemoryHandle handle) const {
    const auto found = regions_.find(handle);
    if (found == regions_.end())
        return Result<Region>(Code::InvalidArgument,
                              "the memory handle names no registered region");
    return published(found->second);
}

Result<void> Process::change_memory(const ChangeMemoryRequest& change) {
    const auto found = regions_.find(change.handle);
    if (found == regions_.end())
        return Result<void>(Code::InvalidArgument, "the memory handle names no registered region");
    found->second.request.tag = change.tag;
    found->second.request.rights = change.rights;
    return table_.change(change.handle, published(found->second));
}

Result<std::uint32_t> Process::create_vi() {
    if (vis_.size() >= limits_.vis)
        return Result<std::uint32_t>(
            Code::OutOfResources,
            "the process has " + std::to_string(limits_.vis) + " VIs (limit of the kernel agent)");
    do {
        ++last_vi_;
    } while (last_vi_ == 0 || vis_.contains(last_vi_));
    vis_.emplace(last_vi_, Vi{});
    return last_vi_;
}

Result<void> Process::restore_vi(std::uint32_t vi) {
    if (vis_.size() >= limits_.vis)
        return Result<void>(Code::OutOfResources, "too many VIs to restore");
    if (!vis_.emplace(vi, Vi{}).second)
        return Result<void>(Code::InvalidArgument, "a VI was restored twice");
    if (vi > last_vi_) last_vi_ = vi;
    return {};
}

Vi* Process::find_vi(std::uint32_t vi) {
    const auto found = vis_.find(vi);
    return found == vis_.end() ? nullptr : &found->second;
}

}  // namespace via::ka
