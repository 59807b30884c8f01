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
        std::vector<iovec> pieces;        ///< one behind the other in the window's address space
        std::uint64_t first_address = 0;  ///< of the window: 0, or its virtual address
        std::uint32_t rights = 0;         ///< window_read | window_write
    };
    /// False: the key is taken, or its pieces do not fit into 64 bits of addresses.
    [[nodiscard]] bool add(std::uint64_t key, Window window);
    void remove(std::uint64_t key);
    /// A random key that is free, for those who do not choose.
    [[nodiscard]] std::uint64_t unused_key();
    /// The memory of [address, address + bytes) of the window is added to `memory`, and is the
    /// owner's to keep as long as it is used. False, and nothing added: no such window, range or
    /// right. `right` may be several: all are needed.
    [[nodiscard]] bool find(const RemotePiece& piece, std::uint32_t right,
                            std::vector<iovec>& memory) const;

  private:
    struct Entry {
        Window window;
        std::uint64_t bytes = 0;
        std::vector<std::uint64_t> ends;  // of each piece, as offsets
    };
    mutable std::mutex mutex_;
    std::unordered_map<std::uint64_t, Entry> windows_;
};

}  // namespace via::mvich
