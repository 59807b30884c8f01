// SPDX-License-Identifier: BSD-3-Clause
// Registered memory, and descriptors in it.
#pragma once

#include <vipl.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "vipl/harness/nic.hpp"

namespace via::test {

struct Segment {
    const void* data = nullptr;
    VIP_MEM_HANDLE handle = 0;
    std::uint32_t bytes = 0;
};

/// The segments of a descriptor, also those behind the declared two.
[[nodiscard]] inline VIP_DESCRIPTOR_SEGMENT* segments_of(VIP_DESCRIPTOR* descriptor) {
    return reinterpret_cast<VIP_DESCRIPTOR_SEGMENT*>(reinterpret_cast<std::byte*>(descriptor) +
                                                     sizeof(VIP_CONTROL_SEGMENT));
}

struct Remote {
    const void* data = nullptr;
    VIP_MEM_HANDLE handle = 0;
};

/// A send or receive of the given segments; `control` may add bits.
void fill(VIP_DESCRIPTOR* descriptor, std::span<const Segment> segments, unsigned control = 0);
/// An RDMA write or read, according to `control`.
void fill_rdma(VIP_DESCRIPTOR* descriptor, Remote remote, std::span<const Segment> segments,
               unsigned control);

struct ArenaOptions {
    std::size_t bytes = 1U << 20;
    VIP_PROTECTION_HANDLE tag = nullptr;
    bool rdma_write = true;
    bool rdma_read = true;
};

/// Registered memory that hands out data and descriptors from one region, front to back.
class Arena {
  public:
    explicit Arena(Nic& nic, const ArenaOptions& options = {});
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    [[nodiscard]] VIP_MEM_HANDLE handle() const { return handle_; }
    [[nodiscard]] std::byte* base() const { return base_; }
    [[nodiscard]] std::size_t bytes() const { return options_.bytes; }
    [[nodiscard]] std::byte* take(std::size_t bytes, std::size_t alignment = 64);
    /// Zeroed, with room for `segments` segments.
    [[nodiscard]] VIP_DESCRIPTOR* descriptor(std::size_t segments = 2);

    [[nodiscard]] VIP_DESCRIPTOR* message(const void* data, std::size_t bytes,
                                          unsigned control = 0);
    [[nodiscard]] VIP_DESCRIPTOR* immediate_message(const void* data, std::size_t bytes,
                                                    std::uint32_t immediate);
    [[nodiscard]] VIP_DESCRIPTOR* rdma_write(const void* data, std::size_t bytes, Remote remote,
                                             unsigned control = 0);
    [[nodiscard]] VIP_DESCRIPTOR* rdma_read(const void* data, std::size_t bytes, Remote remote,
                                            unsigned control = 0);
    [[nodiscard]] Segment segment(const void* data, std::size_t bytes) const {
        return {data, handle_, static_cast<std::uint32_t>(bytes)};
    }
    void deregister();

  private:
    [[nodiscard]] VIP_DESCRIPTOR* rdma(const void* data, std::size_t bytes, Remote remote,
                                       unsigned control);

    Nic& nic_;
    ArenaOptions options_;
    std::byte* base_ = nullptr;
    std::size_t used_ = 0;
    VIP_MEM_HANDLE handle_ = 0;
    bool registered_ = false;
};

/// Status while the library may still write it.
[[nodiscard]] inline std::uint32_t live_status(const VIP_DESCRIPTOR* descriptor) {
    return __atomic_load_n(&descriptor->CS.Status, __ATOMIC_ACQUIRE);
}

}  // namespace via::test
