// SPDX-License-Identifier: BSD-3-Clause
// Registered memory: only what is registered can be sent from, received into or reached by RDMA.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "via/descriptor.hpp"
#include "via/expected.hpp"
#include "via/handle.hpp"

namespace via {

class Memory {
  public:
    // Use Nic::allocate.
    static Expected<Memory> allocate(std::shared_ptr<detail::TagHandle> tag, std::size_t bytes,
                                     Rights rights) {
        VIP_MEM_ATTRIBUTES attributes = make_attributes(*tag, rights);
        VIP_PVOID address = nullptr;
        VIP_MEM_HANDLE handle = 0;
        const VIP_RETURN code =
            VipxAllocMem(tag->nic->value, bytes, &attributes, &address, &handle);
        if (code != VIP_SUCCESS) return Error::last(code);
        return Memory(std::move(tag), {static_cast<std::byte*>(address), bytes}, handle, true);
    }

    // Use Nic::register_memory.
    static Expected<Memory> register_bytes(std::shared_ptr<detail::TagHandle> tag,
                                           std::span<std::byte> bytes, Rights rights) {
        VIP_MEM_ATTRIBUTES attributes = make_attributes(*tag, rights);
        VIP_MEM_HANDLE handle = 0;
        const VIP_RETURN code =
            VipRegisterMem(tag->nic->value, bytes.data(), bytes.size(), &attributes, &handle);
        if (code != VIP_SUCCESS) return Error::last(code);
        return Memory(std::move(tag), bytes, handle, false);
    }

    Memory(Memory&& other) noexcept
        : tag_(std::move(other.tag_)),
          bytes_(std::exchange(other.bytes_, {})),
          handle_(std::exchange(other.handle_, 0)),
          allocated_(other.allocated_) {}
    Memory& operator=(Memory&& other) noexcept {
        if (this != &other) {
            release();
            tag_ = std::move(other.tag_);
            bytes_ = std::exchange(other.bytes_, {});
            handle_ = std::exchange(other.handle_, 0);
            allocated_ = other.allocated_;
        }
        return *this;
    }
    ~Memory() { release(); }

    std::span<std::byte> bytes() const noexcept { return bytes_; }
    std::byte* data() const noexcept { return bytes_.data(); }
    std::size_t size() const noexcept { return bytes_.size(); }
    VIP_MEM_HANDLE handle() const noexcept { return handle_; }

    // The memory as an array of T, as many as fit.
    template <class T>
    std::span<T> as() const noexcept {
        static_assert(std::is_trivially_copyable_v<T>);
        return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
    }

    // A part for local use; what lies outside the memory is cut off.
    Segment segment(std::size_t offset = 0, std::size_t length = whole) const noexcept {
        const std::span<std::byte> part = cut(offset, length);
        return {part.data(), static_cast<std::uint32_t>(part.size()), handle_};
    }

    // A part for the peer to use.
    RemoteSegment remote_segment(std::size_t offset = 0,
                                 std::size_t length = whole) const noexcept {
        const std::span<std::byte> part = cut(offset, length);
        return {reinterpret_cast<std::uintptr_t>(part.data()), handle_,
                static_cast<std::uint32_t>(part.size())};
    }

    Expected<void> set_rights(Rights rights) {
        VIP_MEM_ATTRIBUTES attributes = make_attributes(*tag_, rights);
        return detail::check(
            VipSetMemAttributes(tag_->nic->value, bytes_.data(), handle_, &attributes));
    }

    const std::shared_ptr<detail::TagHandle>& tag_handle() const noexcept { return tag_; }

  private:
    static constexpr std::size_t whole = std::numeric_limits<std::size_t>::max();

    Memory(std::shared_ptr<detail::TagHandle> tag, std::span<std::byte> bytes,
           VIP_MEM_HANDLE handle, bool allocated) noexcept
        : tag_(std::move(tag)), bytes_(bytes), handle_(handle), allocated_(allocated) {}

    static VIP_MEM_ATTRIBUTES make_attributes(const detail::TagHandle& tag,
                                              Rights rights) noexcept {
        return {tag.value, detail::boolean(rights.rdma_write), detail::boolean(rights.rdma_read)};
    }

    std::span<std::byte> cut(std::size_t offset, std::size_t length) const noexcept {
        offset = std::min(offset, bytes_.size());
        constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
        return bytes_.subspan(offset, std::min({length, bytes_.size() - offset, most}));
    }

    void release() noexcept {
        if (handle_ == 0) return;
        if (allocated_) {
            VipxFreeMem(tag_->nic->value, bytes_.data(), handle_);
        } else {
            VipDeregisterMem(tag_->nic->value, bytes_.data(), handle_);
        }
        handle_ = 0;
    }

    std::shared_ptr<detail::TagHandle> tag_;
    std::span<std::byte> bytes_;
    VIP_MEM_HANDLE handle_ = 0;
    bool allocated_ = false;
};

}  // namespace via
