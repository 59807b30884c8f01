// SPDX-License-Identifier: BSD-3-Clause
// MVICH's vbufs: fixed-size buffers, each with its VIA descriptor, in regions that are registered
// as a whole, chained, added on demand and given back when they are idle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "vipl.h"

namespace via::mvich {

/// Registers memory with the NIC; the pool's and the cache's way to it.
class Registrar {
  public:
    virtual ~Registrar() = default;
    [[nodiscard]] virtual base::Result<std::uint32_t> register_memory(void* address,
                                                                      std::size_t bytes) = 0;
    virtual void deregister(void* address, std::uint32_t handle) noexcept = 0;
    /// Memory that is used so often that it is worth some work to make its use faster.
    virtual void favour(void* /*address*/, std::size_t /*bytes*/) noexcept {}
};

class VbufRegion;

struct alignas(VIP_DESCRIPTOR_ALIGNMENT) Vbuf {
    VIP_DESCRIPTOR descriptor;
    VbufRegion* region;                ///< null: from the heap
    Vbuf* next;                        ///< free list, or a list of its holder
    void* owner;                       ///< whoever posted it
    std::uint32_t bytes;               ///< of `packet` in use
    std::uint32_t handle;              ///< of the region's memory: of descriptor and packet
    alignas(64) std::byte packet[64];  ///< as long as the pool says
};

class VbufPool {
  public:
    struct Geometry {
        std::uint32_t packet_bytes = 0;  ///< largest packet
        std::uint32_t vbufs_per_region = 0;
        std::uint32_t max_regions = 0;
    };
    VbufPool(Registrar& registrar, const Geometry& geometry);
    ~VbufPool();
    VbufPool(const VbufPool&) = delete;
    VbufPool& operator=(const VbufPool&) = delete;

    /// Its descriptor is zero when it is new, and as it was left when it was used before. Null: no
    /// region can be added (their number, memory or registration); nothing has happened.
    [[nodiscard]] Vbuf* take() noexcept;
    /// For a packet that only waits in it: from the heap if need be, since the peer's credits bound
    /// how many there are. It can not be posted. Null: there is no memory.
    [[nodiscard]] Vbuf* take_to_keep() noexcept;
    void give(Vbuf* vbuf) noexcept;

    [[nodiscard]] const Geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] std::size_t regions() const noexcept { return regions_.size(); }
    [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
    /// How many more there can be, if memory allows.
    [[nodiscard]] std::size_t room() const noexcept {
        return std::size_t{geometry_.vbufs_per_region} * geometry_.max_regions - in_use_;
    }

  private:
    bool add_region() noexcept;
    void remove_region(VbufRegion& region) noexcept;
    // The regions that have free vbufs: those that are partly used before the one that is not.
    void link_first(VbufRegion& region) noexcept;
    void link_last(VbufRegion& region) noexcept;
    void unlink(VbufRegion& region) noexcept;

    Registrar& registrar_;
    Geometry geometry_;
    std::vector<std::unique_ptr<VbufRegion>> regions_;
    VbufRegion* first_ = nullptr;
    VbufRegion* last_ = nullptr;
    VbufRegion* idle_ = nullptr;  // the one that is wholly free
    std::size_t in_use_ = 0;
};

}  // namespace via::mvich
