// SPDX-License-Identifier: BSD-3-Clause
// Handles that a program can hold wrongly: stale, foreign, freed twice, made up. A handle is an
// index with a generation; objects live in memory that is never given back, so a look-up of any
// value is safe, and a stale one does not match.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/cpu.hpp"

namespace via::ua {

/// T has `std::atomic<std::uint64_t> handle`, 0 while free. KindBits tells tables apart.
template <class T, unsigned KindBits>
class HandleTable {
  public:
    HandleTable() = default;
    HandleTable(const HandleTable&) = delete;
    HandleTable& operator=(const HandleTable&) = delete;
    ~HandleTable() {
        for (auto& chunk : chunks_)
            delete chunk.load(std::memory_order_relaxed);
    }

    /// A free object, with a new handle not yet set: the caller makes it ready and then publishes
    /// with `object.handle.store(handle, release)`. Null: the table is full.
    [[nodiscard]] T* take(std::uint64_t& handle) {
        const std::lock_guard guard(mutex_);
        std::uint32_t index;
        if (!free_.empty()) {
            index = free_.back();
            free_.pop_back();
        } else {
            if (used_ == chunks_.size() * chunk_items) return nullptr;
            index = used_;
            if (index % chunk_items == 0) {
                free_.reserve(index + chunk_items);  // giving back needs no memory
                chunks_[index / chunk_items].store(new Chunk, std::memory_order_release);
            }
            ++used_;
        }
        ++generation_;
        handle = generation_ << 28 | static_cast<std::uint64_t>(index) << 8 | KindBits;
        return &item(index);
    }
    /// The object's handle is 0 already.
    void give_back(std::uint64_t handle) {
        const std::lock_guard guard(mutex_);
        free_.push_back(index_of(handle));
    }
    [[nodiscard]] T* find(const void* handle_pointer) noexcept {
        const auto handle = reinterpret_cast<std::uint64_t>(handle_pointer);
        const std::uint32_t index = index_of(handle);
        if ((handle & 0xFF) != KindBits || index / chunk_items >= chunks_.size()) return nullptr;
        Chunk* chunk = base::load_pointer(chunks_[index / chunk_items]);
        if (chunk == nullptr) return nullptr;
        T* object = &chunk->items[index % chunk_items];
        // What else the object holds is read under its lock, which orders it.
        return object->handle.load(std::memory_order_relaxed) == handle ? object : nullptr;
    }
    template <class Visit>
    void for_each(Visit visit) {
        const std::lock_guard guard(mutex_);
        for (std::uint32_t i = 0; i < used_; ++i) {
            T& object = item(i);
            if (object.handle.load(std::memory_order_acquire) != 0) visit(object);
        }
    }

  private:
    static constexpr std::size_t chunk_items = 32;
    struct Chunk {
        std::array<T, chunk_items> items;
    };
    [[nodiscard]] static std::uint32_t index_of(std::uint64_t handle) noexcept {
        return static_cast<std::uint32_t>(handle >> 8) & 0xFFFFF;
    }
    [[nodiscard]] T& item(std::uint32_t index) {
        return chunks_[index / chunk_items]
            .load(std::memory_order_acquire)
            ->items[index % chunk_items];
    }

    std::array<std::atomic<Chunk*>, 1024> chunks_{};
    std::mutex mutex_;
    std::vector<std::uint32_t> free_;
    std::uint32_t used_ = 0;
    std::uint64_t generation_ = 0;
};

}  // namespace via::ua
