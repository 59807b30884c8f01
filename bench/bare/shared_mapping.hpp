// SPDX-License-Identifier: BSD-3-Clause
// Zeroed memory that a forked child shares with its parent.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/result.hpp"

namespace via::bare {

class SharedMapping {
  public:
    [[nodiscard]] static base::Result<SharedMapping> create(std::size_t bytes) {
        void* address =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (address == MAP_FAILED) {
            return base::system_error(errno, "map shared memory for a bare measurement");
        }
        return SharedMapping(address, bytes);
    }
    SharedMapping(SharedMapping&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}
    SharedMapping& operator=(SharedMapping&&) = delete;
    SharedMapping(const SharedMapping&) = delete;
    SharedMapping& operator=(const SharedMapping&) = delete;
    ~SharedMapping() {
        if (address_ != nullptr) ::munmap(address_, bytes_);
    }

    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(address_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    SharedMapping(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
    void* address_;
    std::size_t bytes_;
};

}  // namespace via::bare
