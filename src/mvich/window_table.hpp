// SPDX-License-Identifier: BSD-3-Clause
// Windows: memory that peers may read and write by key. One table per device. Thread-safe.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "mvich/order.hpp"

namespace via::mvich {

class WindowTable {
  public:
    struct Window {
        std::vector<iovec> pieces;     ///< one behind the other in the window's address space
        std::uint64_t first_address = 0;  ///< of the window: 0, or its virtual address
        std::uint32_t rights = 0;      ///< window_read | window_write
    };
    /// False: the key is taken.
    [[nodiscard]] bool add(std::uint64_t key, Window window);
    void remove(std::uint64_t key);
    /// A random key that is free, for those who do not choose.
    [[nodiscard]] std::uint64_t unused_key();
    /// The memory of [address, address + bytes) of the window. Empty and false: no such window,
    /// range or right.
    [[nodiscard]] bool find(const RemotePiece& piece, std::uint32_t right,
                            std::vector<iovec>& memory) const;

  private:
    mutable std::mutex mutex_;
    std::unordered_map<std::uint64_t, Window> windows_;
};

}  // namespace via::mvich
