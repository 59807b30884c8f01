// SPDX-License-Identifier: BSD-3-Clause
#include "ka/client_attachment.hpp"

namespace via::ka::attachment {

namespace {

std::uint64_t number_of(const void* address) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace

Result<MemoryHandle> Client::register_memory(const void* address, std::uint64_t bytes,
                                             ProtectionTag tag, std::uint32_t rights) {
    if (forked()) return fork_error();
    RegisterRequest region;
    region.address = number_of(address);
    region.bytes = bytes;
    region.tag = tag;
    region.rights = rights;
    if (bytes == 0 || region.address > ~std::uint64_t{0} - bytes ||
        (rights & ~(right_rdma_write | right_rdma_read)) != 0)
        return Result<MemoryHandle>(
            Code::InvalidArgument,
            "a region to register must have bytes, lie in the address space "
            "and have known rights");
    if (pins_memory_) {
        const std::lock_guard lock(pin_mutex_);
        if (auto pinned = pins_.pin(region.address, bytes); !pinned)
            return std::move(pinned).error();
    }
    base::Undo unregistered([&] {
        if (!pins_memory_) return;
        const std::lock_guard lock(pin_mutex_);
        pins_.unpin(region.address, bytes);
    });
    {
        const Lock lock(mutex_);
        if (const auto place = holdings_.locate(region.address, bytes)) {
            region.arena = place->first;
            region.arena_offset = place->second;
        }
    }
    auto registered = expect<RegisteredReply>(call_plain(region, [&](AgentMessage& answer) {
        if (const auto* body = std::get_if<RegisteredReply>(&answer.reply.body))
            holdings_.regions[body->handle] = region;
    }));
    if (!registered) return std::move(registered).error();
    unregistered.keep();
    return registered.value().handle;
}

Result<void> Client::deregister_memory(MemoryHandle handle) {
    std::optional<RegisterRequest> region;
    auto done =
        expect_done<DoneReply>(call_plain(DeregisterRequest{handle, 0}, [&](AgentMessage& answer) {
            if (!std::holds_alternative<DoneReply>(answer.reply.body)) return;
            if (auto found = holdings_.regions.extract(handle)) region = found.mapped();
        }));
    if (region && pins_memory_) {
        const std::lock_guard lock(pin_mutex_);
        pins_.unpin(region->address, region->bytes);
    }
    return done;
}

Result<void> Client::change_memory(MemoryHandle handle, ProtectionTag tag, std::uint32_t rights) {
    if ((rights & ~(right_rdma_write | right_rdma_read)) != 0)
        return Result<void>(Code::InvalidArgument, "unknown rights");
    return expect_done<DoneReply>(
        call_plain(ChangeMemoryRequest{handle, tag, rights, 0}, [&](AgentMessage& answer) {
            if (!std::holds_alternative<DoneReply>(answer.reply.body)) return;
            const auto found = holdings_.regions.find(handle);
            if (found == holdings_.regions.end()) return;
            found->second.tag = tag;
            found->second.rights = rights;
        }));
}

Result<KmemBlock> Client::allocate_kmem(std::uint64_t bytes, ProtectionTag tag) {
    auto block = allocate_kmem(bytes, tag, false);
    // Huge pages were there when the agent looked, and gone when they were to be used.
    if (!block && block.error().code == Code::NotSupported) return allocate_kmem(bytes, tag, true);
    return block;
}

Result<KmemBlock> Client::allocate_kmem(std::uint64_t bytes, ProtectionTag tag,
                                        bool ordinary_pages) {
    if (forked()) return fork_error();
    Result<KmemBlock> block(Code::ProtocolViolation, "the kernel agent gave no kmem");
    bool huge_pages = false;
    const UniqueFd* file = nullptr;  // stays as long as the block does
    std::uint64_t arena_bytes = 0;
    bool new_arena = false;
    const auto answer = call_plain(
        AllocateKmemRequest{bytes, tag, ordinary_pages ? 1U : 0U}, [&](AgentMessage& message) {
            const auto* reply = std::get_if<KmemAllocatedReply>(&message.reply.body);
            if (reply == nullptr) return;
            new_arena = reply->new_arena == 1;
            Result<void> usable;
            if (new_arena && message.fds.empty())
                usable = lost_descriptors();
            else if (new_arena)
                usable = holdings_.add_arena(*reply, std::move(message.fds.front()));
            if (usable) {
                base::Undo empty([&] {
                    if (new_arena) holdings_.remove_block(reply->arena, reply->offset, true);
                });
                block = holdings_.add_block(*reply);
                empty.keep();
                huge_pages = reply->huge_pages == 1;
                arena_bytes = reply->arena_bytes;
                if (const auto* arena = holdings_.find_arena(reply->arena)) file = &arena->file;
            } else {
                block = usable.error();
                undo_unwanted(message);
            }
        });
    if (auto reply = expect<KmemAllocatedReply>(answer); !reply) return std::move(reply).error();
    if (!block) return block;
    // The pages exist before anybody touches them, so that a full system is an error here.
    Result<void> allocated;
    const KmemBlock& got = block.value();
    if (!huge_pages)
        allocated = base::allocate_range(*file, got.arena_offset, got.bytes);
    else if (new_arena)
        allocated = base::allocate_range(*file, 0, arena_bytes);
    if (allocated) return block;
    abandon_kmem(got.address);
    if (huge_pages && !ordinary_pages)
        return Result<KmemBlock>(Code::NotSupported, "huge pages are used up");
    return std::move(allocated).error();
}

Result<void> Client::free_kmem(const void* address) {
    if (forked()) return fork_error();
    std::optional<KmemBlock> block;
    {
        const Lock lock(mutex_);
        block = holdings_.find_block(address);
    }
    if (!block) return Result<void>(Code::InvalidArgument, "no kmem block starts at that address");
    // The books are kept when the answer comes.
    return expect_done<KmemFreedReply>(
        call_plain(FreeKmemRequest{block->arena_offset, block->arena, 0}));
}

void Client::abandon_kmem(const void* address) noexcept {
    if (forked()) return;
    const Lock lock(mutex_);
    const auto block = holdings_.find_block(address);
    if (block)
        send_now(
            encode_in_place(++last_id_, FreeKmemRequest{block->arena_offset, block->arena, 0}));
}

// ---- memory of peers

Result<ArenaGrant> Client::peer_arena(std::uint64_t connection, std::uint32_t arena) {
    auto answer = call_plain(PeerArenaRequest{connection, arena, 0});
    auto granted = expect<ArenaGrantedReply>(answer);
    if (!granted) return std::move(granted).error();
    if (answer.value().fds.size() != 1) return lost_descriptors();
    return ArenaGrant{std::move(answer.value().fds.front()), granted.value().bytes};
}

Result<AgentClient::RmmtGrant> Client::peer_rmmt(std::uint64_t connection) {
    auto answer = call_plain(PeerRmmtRequest{connection});
    auto granted = expect<RmmtGrantedReply>(answer);
    if (!granted) return std::move(granted).error();
    if (answer.value().fds.size() != 1) return lost_descriptors();
    return RmmtGrant{std::move(answer.value().fds.front()), granted.value().epoch};
}

Result<Region> Client::translate(MemoryHandle handle) {
    auto found = expect<TranslatedReply>(call_plain(TranslateRequest{handle, 0}));
    if (!found) return std::move(found).error();
    const TranslatedReply& reply = found.value();
    return Region{reply.address, reply.length, reply.tag,
                  reply.rights,  reply.arena,  reply.arena_offset};
}

}  // namespace via::ka::attachment
