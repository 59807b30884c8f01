// SPDX-License-Identifier: BSD-3-Clause
// Lazy registration: memory stays registered after a transfer, since programs use their buffers
// again. What is not in use is given back, oldest first, when there is too much of it. What is used
// time and again is worth huge pages (Registrar::favour).
//
// It can not become wrong. A registration here says "this range of virtual addresses may be
// touched"; the data are read and written through the process's own page tables when they move.
// Memory that was freed and mapped again is reached as it is now, as if it were new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mvich/vbuf.hpp"

namespace via::mvich {

class RegistrationCache {
  public:
    /// Of all that is registered; what is in use may be more than that, but then nothing else is.
    struct Limits {
        std::size_t entries = 0;  ///< 0: nothing stays registered
        std::size_t bytes = 0;
    };
    struct Counts {
        std::uint64_t hits = 0;
        std::uint64_t misses = 0;
        std::uint64_t refused = 0;  ///< of the misses
        std::uint64_t evicted = 0;  ///< given back for a limit, a larger range or a new try
    };
    class Entry;

    RegistrationCache(Registrar& registrar, const Limits& limits);
    ~RegistrationCache();
    RegistrationCache(const RegistrationCache&) = delete;
    RegistrationCache& operator=(const RegistrationCache&) = delete;

    /// An entry that covers [address, address + bytes), in use until release(). Null: refused, also
    /// after as much as this was given back.
    [[nodiscard]] Entry* acquire(const void* address, std::size_t bytes) noexcept;
    void release(Entry* entry) noexcept;
    [[nodiscard]] static std::uint32_t handle_of(const Entry* entry) noexcept;

    [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
    [[nodiscard]] std::size_t registered_bytes() const noexcept;
    [[nodiscard]] std::size_t entries() const noexcept;

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
    Counts counts_;
};

}  // namespace via::mvich
