// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/vbuf.hpp"

#include <cstddef>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <type_traits>

namespace via::mvich {

namespace {

std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

class VbufRegion {
  public:
    VbufRegion(Registrar& registrar, const VbufPool::Geometry& geometry) noexcept
        : vbufs_(geometry.vbufs_per_region),
          stride_(rounded_up(offsetof(Vbuf, packet) + geometry.packet_bytes, alignof(Vbuf))),
          registrar_(registrar) {}
    ~VbufRegion() {
        if (registered_) registrar_.deregister(memory_, handle_);
        if (memory_ != nullptr) ::munmap(memory_, bytes());
    }
    VbufRegion(const VbufRegion&) = delete;
    VbufRegion& operator=(const VbufRegion&) = delete;

    [[nodiscard]] bool open() {
        void* memory =
            ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return false;
        memory_ = static_cast<std::byte*>(memory);
        const base::Result<std::uint32_t> handle = registrar_.register_memory(memory_, bytes());
        if (!handle) return false;
        handle_ = handle.value();
        registered_ = true;
        // The first one is taken first.
        for (std::size_t i = vbufs_; i-- != 0;) {
            static_assert(std::is_trivially_default_constructible_v<Vbuf>);
            auto* vbuf = reinterpret_cast<Vbuf*>(memory_ + i * stride_);  // mapped memory is zero
            vbuf->region = this;
            vbuf->handle = handle_;
            push(*vbuf);
        }
        return true;
    }

    [[nodiscard]] Vbuf& pop() noexcept {
        Vbuf& vbuf = *free_;
        free_ = vbuf.next;
        --free_count_;
        vbuf.next = nullptr;
        return vbuf;
    }
    void push(Vbuf& vbuf) noexcept {
        vbuf.next = free_;
        free_ = &vbuf;
        ++free_count_;
    }
    [[nodiscard]] bool none_free() const noexcept { return free_ == nullptr; }
    [[nodiscard]] bool all_free() const noexcept { return free_count_ == vbufs_; }

    VbufRegion* previous = nullptr;  // of the pool
    VbufRegion* next = nullptr;

  private:
    [[nodiscard]] std::size_t bytes() const noexcept {
        return rounded_up(vbufs_ * stride_, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
    }

    std::size_t vbufs_;
    std::size_t stride_;
    Registrar& registrar_;
    std::byte* memory_ = nullptr;
    std::uint32_t handle_ = 0;
    bool registered_ = false;
    Vbuf* free_ = nullptr;
    std::size_t free_count_ = 0;
};

VbufPool::VbufPool(Registrar& registrar, const Geometry& geometry)
    : registrar_(registrar), geometry_(geometry) {
    geometry_.vbufs_per_region = std::max<std::uint32_t>(geometry_.vbufs_per_region, 1);
}

VbufPool::~VbufPool() = default;

Vbuf* VbufPool::take() noexcept {
    if (first_ == nullptr && !add_region()) return nullptr;
    VbufRegion& region = *first_;
    if (&region == idle_) idle_ = nullptr;
    Vbuf& vbuf = region.pop();
    if (region.none_free()) unlink(region);
    ++in_use_;
    return &vbuf;
}

Vbuf* VbufPool::take_to_keep() noexcept {
    // The last region is for packets and RDMA on their way, or those that wait would hold up what
    // they wait for.
    if (regions_.size() < geometry_.max_regions)
        if (Vbuf* vbuf = take()) return vbuf;
    const std::size_t bytes = offsetof(Vbuf, packet) + geometry_.packet_bytes;
    constexpr std::size_t alignment = alignof(Vbuf);
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory == nullptr) return nullptr;
    auto* vbuf = static_cast<Vbuf*>(memory);
    vbuf->region = nullptr;
    vbuf->handle = 0;
    ++in_use_;
    return vbuf;
}

void VbufPool::give(Vbuf* vbuf) noexcept {
    if (vbuf->region == nullptr) {
        std::free(vbuf);
        --in_use_;
        return;
    }
    VbufRegion& region = *vbuf->region;
    if (region.none_free()) link_first(region);
    region.push(*vbuf);
    --in_use_;
    if (!region.all_free()) return;
    // One is kept, so that the next burst needs no system calls: the one that was used last.
    if (idle_ != nullptr) remove_region(*idle_);
    idle_ = &region;
    if (last_ != &region) {
        unlink(region);
        link_last(region);
    }
}

bool VbufPool::add_region() noexcept {
    if (regions_.size() >= geometry_.max_regions) return false;
    try {
        regions_.reserve(regions_.size() + 1);
        auto region = std::make_unique<VbufRegion>(registrar_, geometry_);
        if (!region->open()) return false;
        link_first(*region);
        idle_ = region.get();
        regions_.push_back(std::move(region));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void VbufPool::remove_region(VbufRegion& region) noexcept {
    unlink(region);
    std::erase_if(regions_, [&](const auto& each) { return each.get() == &region; });
}

void VbufPool::link_first(VbufRegion& region) noexcept {
    region.previous = nullptr;
    region.next = first_;
    (first_ != nullptr ? first_->previous : last_) = &region;
    first_ = &region;
}

void VbufPool::link_last(VbufRegion& region) noexcept {
    region.next = nullptr;
    region.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &region;
    last_ = &region;
}

void VbufPool::unlink(VbufRegion& region) noexcept {
    (region.previous != nullptr ? region.previous->next : first_) = region.next;
    (region.next != nullptr ? region.next->previous : last_) = region.previous;
}

}  // namespace via::mvich
