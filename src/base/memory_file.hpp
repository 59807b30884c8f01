// SPDX-License-Identifier: BSD-3-Clause
// Memory shared between processes: sealed memfds and their mappings. Nothing has a name, so a
// killed process leaves nothing behind.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::base {

/// Allocated: all pages exist at once, so that a full system is an error here and not a SIGBUS
/// later. Sparse: whoever touches a page first must have allocated it (allocate_range).
enum class Backing { Allocated, Sparse };
/// Shared: everybody who has the descriptor may write. OwnerWrites: call seal_future_writes() after
/// mapping it oneself; from then on nobody else can map it writable.
enum class Sharing { Shared, OwnerWrites };

/// Creates a memfd of exactly `bytes`, sealed against growing and shrinking.
[[nodiscard]] Result<UniqueFd> create_memory_file(const char* name, std::size_t bytes,
                                                  Backing backing,
                                                  Sharing sharing = Sharing::Shared);
[[nodiscard]] Result<void> seal_future_writes(const UniqueFd& file);

[[nodiscard]] Result<void> allocate_range(const UniqueFd& file, std::size_t offset,
                                          std::size_t bytes);
/// Gives the pages back to the system; they read as zero afterwards.
[[nodiscard]] Result<void> release_range(const UniqueFd& file, std::size_t offset,
                                         std::size_t bytes);

/// What another process sent: it must be a memfd of at least `bytes` that can not shrink.
[[nodiscard]] Result<void> verify_memory_file(const UniqueFd& file, std::size_t bytes);

enum class Access { ReadOnly, ReadWrite };

class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        if (this != &other) {
            unmap();
            address_ = std::exchange(other.address_, nullptr);
            bytes_ = std::exchange(other.bytes_, 0);
        }
        return *this;
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { unmap(); }

    [[nodiscard]] static Result<Mapping> map(const UniqueFd& file, std::size_t bytes, Access access,
                                             std::size_t offset = 0);

    [[nodiscard]] std::byte* data() const noexcept { return address_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] bool valid() const noexcept { return address_ != nullptr; }
    void unmap() noexcept;

  private:
    Mapping(std::byte* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
    std::byte* address_ = nullptr;
    std::size_t bytes_ = 0;
};

/// Is every page of [address, +bytes) part of some mapping of this process?
[[nodiscard]] bool is_mapped(const void* address, std::size_t bytes);

}  // namespace via::base
