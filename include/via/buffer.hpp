// SPDX-License-Identifier: BSD-3-Clause
// Buffers: a descriptor and a payload area, ready to be posted.
//
// A Buffer owns its place in the pool. Posting moves it into the VI, its completion moves it back
// out, and one that is dropped returns to its pool, so none is lost or posted twice. A pool and
// its buffers belong to one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "via/memory.hpp"

namespace via {

namespace detail {

struct Pool;

// Descriptors lie in memory of this process alone, not beside the payloads: a peer can map
// memory of the kernel agent, and must not be able to touch what is kept here.
struct alignas(VIP_DESCRIPTOR_ALIGNMENT) Slot {
    static constexpr std::size_t max_segments = 6;

    VIP_DESCRIPTOR descriptor;
    VIP_DESCRIPTOR_SEGMENT more[max_segments - 2];
    Pool* pool;
    Slot* next_free;
    std::byte* payload;
    std::uintptr_t cookie;
    std::uint32_t size;

    VIP_DESCRIPTOR_SEGMENT& segment(std::size_t index) noexcept {
        return index < 2 ? descriptor.DS[index] : more[index - 2];
    }
};
static_assert(std::is_standard_layout_v<Slot> && offsetof(Slot, descriptor) == 0);
static_assert(offsetof(Slot, more) == sizeof(VIP_DESCRIPTOR), "the segments must be one list");

struct SlotStorage {
    explicit SlotStorage(std::size_t slot_count) : count(slot_count) {
        slots = static_cast<Slot*>(
            ::operator new (count * sizeof(Slot), std::align_val_t{alignof(Slot)}));
        std::memset(static_cast<void*>(slots), 0, count * sizeof(Slot));
    }
    SlotStorage(const SlotStorage&) = delete;
    SlotStorage& operator=(const SlotStorage&) = delete;
    ~SlotStorage() { ::operator delete (slots, std::align_val_t{alignof(Slot)}); }

    std::span<std::byte> bytes() const noexcept {
        return {reinterpret_cast<std::byte*>(slots), count * sizeof(Slot)};
    }

    Slot* slots = nullptr;
    std::size_t count;
};

// Lives until the BufferPool and the last of its buffers are gone, posted ones included.
struct Pool {
    std::unique_ptr<SlotStorage> storage;
    Memory descriptors;
    Memory payloads;
    std::uint32_t capacity;
    Slot* first_free = nullptr;
    std::size_t taken = 0;
    bool closed = false;

    static void give_back(Slot* slot) noexcept {
        Pool* pool = slot->pool;
        slot->next_free = pool->first_free;
        pool->first_free = slot;
        --pool->taken;
        pool->delete_if_unused();
    }

    static void close(Pool* pool) noexcept {
        if (pool == nullptr) return;
        pool->closed = true;
        pool->delete_if_unused();
    }

    void delete_if_unused() noexcept {
        if (closed && taken == 0) delete this;
    }
};

}  // namespace detail

class Buffer {
  public:
    // Segments that one operation may have; an RDMA operation needs one for the remote place.
    static constexpr std::size_t max_segments = detail::Slot::max_segments;

    Buffer() noexcept = default;
    Buffer(Buffer&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        if (this != &other) {
            drop();
            slot_ = std::exchange(other.slot_, nullptr);
        }
        return *this;
    }
    ~Buffer() { drop(); }

    // False after the buffer was posted or moved.
    explicit operator bool() const noexcept { return slot_ != nullptr; }

    std::size_t capacity() const noexcept { return slot_->pool->capacity; }

    // The bytes that count: set by the program before a send, by a completed receive.
    std::size_t size() const noexcept { return slot_->size; }
    void resize(std::size_t bytes) noexcept {
        slot_->size = static_cast<std::uint32_t>(std::min(bytes, capacity()));
    }

    // The whole payload area, whatever the size.
    std::span<std::byte> area() const noexcept { return {slot_->payload, capacity()}; }
    std::span<std::byte> bytes() const noexcept { return {slot_->payload, size()}; }
    std::string_view text() const noexcept {
        return {reinterpret_cast<const char*>(slot_->payload), size()};
    }

    // Copies in as much as fits and says how much that was.
    std::size_t assign(std::span<const std::byte> bytes) noexcept {
        resize(bytes.size());
        if (size() > 0) std::memcpy(slot_->payload, bytes.data(), size());
        return size();
    }
    std::size_t assign(std::string_view text) noexcept {
        return assign(std::as_bytes(std::span(text)));
    }

    // The used part of the payload as a segment.
    Segment segment() const noexcept {
        return {slot_->payload, slot_->size, slot_->pool->payloads.handle()};
    }

    // For the classes of this API: the descriptor's slot, held or given away.
    detail::Slot* slot() const noexcept { return slot_; }
    detail::Slot* release() noexcept { return std::exchange(slot_, nullptr); }
    static Buffer adopt(detail::Slot* slot) noexcept {
        Buffer buffer;
        buffer.slot_ = slot;
        return buffer;
    }

  private:
    void drop() noexcept {
        if (slot_ != nullptr) detail::Pool::give_back(std::exchange(slot_, nullptr));
    }

    detail::Slot* slot_ = nullptr;
};

class BufferPool {
  public:
    static constexpr std::size_t max_bytes_each =
        std::numeric_limits<std::uint32_t>::max() - (VIP_DESCRIPTOR_ALIGNMENT - 1);

    // From one payload to the next: each begins at a cache line's beginning.
    static constexpr std::size_t stride(std::size_t bytes_each) noexcept {
        constexpr std::size_t line = VIP_DESCRIPTOR_ALIGNMENT;
        return (std::min(bytes_each, max_bytes_each) + line - 1) / line * line;
    }

    // Cuts the memory into buffers of `bytes_each` payload, as many as fit.
    static Expected<BufferPool> create(Memory memory, std::size_t bytes_each) {
        if (bytes_each == 0 || bytes_each > max_bytes_each) return bad_size(bytes_each);
        const std::size_t count = memory.size() / stride(bytes_each);
        if (count == 0) {
            return Error{VIP_INVALID_PARAMETER, "cutting " + std::to_string(memory.size()) +
                                                    " bytes into buffers of " +
                                                    std::to_string(stride(bytes_each)) +
                                                    ": there is not room for one; give more"};
        }
        auto storage = std::make_unique<detail::SlotStorage>(count);
        auto descriptors = Memory::register_bytes(memory.tag_handle(), storage->bytes(), {});
        if (!descriptors) return descriptors.error();
        std::unique_ptr<detail::Pool, Closer> pool(
            new detail::Pool{std::move(storage), std::move(*descriptors), std::move(memory),
                             static_cast<std::uint32_t>(bytes_each)});
        for (std::size_t i = count; i-- > 0;) {
            detail::Slot& slot = pool->storage->slots[i];
            slot.pool = pool.get();
            slot.payload = pool->payloads.data() + i * stride(bytes_each);
            slot.next_free = pool->first_free;
            pool->first_free = &slot;
        }
        return BufferPool(std::move(pool));
    }

    // An empty Buffer (false) when all are in use.
    Buffer take() noexcept {
        detail::Slot* slot = pool_->first_free;
        if (slot == nullptr) return {};
        pool_->first_free = slot->next_free;
        ++pool_->taken;
        slot->size = 0;
        return Buffer::adopt(slot);
    }

    std::size_t size() const noexcept { return pool_->storage->count; }
    std::size_t available() const noexcept { return size() - pool_->taken; }
    std::size_t bytes_each() const noexcept { return pool_->capacity; }

    // All payloads.
    const Memory& memory() const noexcept { return pool_->payloads; }

    static Error bad_size(std::size_t bytes_each) {
        return {VIP_INVALID_PARAMETER, "making buffers of " + std::to_string(bytes_each) +
                                           " bytes: the size must be from 1 to " +
                                           std::to_string(max_bytes_each)};
    }

  private:
    struct Closer {
        void operator()(detail::Pool* pool) const noexcept { detail::Pool::close(pool); }
    };

    explicit BufferPool(std::unique_ptr<detail::Pool, Closer> pool) noexcept
        : pool_(std::move(pool)) {}

    std::unique_ptr<detail::Pool, Closer> pool_;
};

}  // namespace via
