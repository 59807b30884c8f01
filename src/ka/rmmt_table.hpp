// SPDX-License-Identifier: BSD-3-Clause
// The writing side of an RMMT: the kernel agent's. The table lies in a memfd that nobody else can
// map writable; pages come into being as entries are used.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "ka/rmmt.hpp"
#include "ka/shared_fd.hpp"

namespace via::ka {

class RmmtTable {
  public:
    /// Index 0 and the last index are never used, so that no handle is 0 or all ones.
    static constexpr std::size_t capacity = rmmt_entries - 2;

    /// Numbers that nobody can guess.
    using Random = std::function<std::uint32_t()>;

    /// Every registration draws the generation of its handle anew, so that a handle can neither be
    /// guessed from others nor match one of an earlier table. Stamps of tables with different
    /// epochs differ, so that a reader notices when a table takes another's place.
    [[nodiscard]] static base::Result<RmmtTable> create(Random random, std::uint32_t epoch = 1);

    /// OutOfResources: all entries are in use, or the system is out of memory.
    [[nodiscard]] base::Result<MemoryHandle> add(const Region& region);
    /// At the handle it had in an earlier table. InvalidArgument: the entry is taken.
    [[nodiscard]] base::Result<void> restore(MemoryHandle handle, const Region& region);
    /// InvalidArgument: there is no such region.
    [[nodiscard]] base::Result<void> remove(MemoryHandle handle);
    [[nodiscard]] base::Result<void> change(MemoryHandle handle, const Region& region);

    [[nodiscard]] bool contains(MemoryHandle handle) const noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return used_count_; }
    [[nodiscard]] const SharedFd& file() const noexcept { return file_; }
    [[nodiscard]] RmmtView view() const noexcept { return RmmtView(entries()); }

  private:
    RmmtTable() = default;
    [[nodiscard]] RmmtEntry* entries() const noexcept {
        return reinterpret_cast<RmmtEntry*>(mapping_.data());
    }
    [[nodiscard]] base::Result<void> make_page(std::uint32_t index);
    void write(std::uint32_t index, MemoryHandle handle, const Region* region) noexcept;

    static constexpr std::size_t page_bytes = 4096;
    static constexpr std::size_t entries_per_page = page_bytes / sizeof(RmmtEntry);
    /// A freed entry rests until so many others are free, and never has the same generation twice
    /// in a row: a stale handle stays invalid for long, and then matches once in 65535 uses of its
    /// entry.
    static constexpr std::size_t resting_entries = 1024;

    SharedFd file_;
    base::Mapping mapping_;
    std::unique_ptr<std::array<std::uint16_t, rmmt_entries>> generations_;  // of the last user
    std::bitset<rmmt_entries> used_;
    std::bitset<rmmt_entries> ever_used_;
    std::bitset<rmmt_entries / entries_per_page> pages_;
    std::deque<std::uint32_t> freed_;
    std::uint32_t next_fresh_ = 1;
    std::size_t used_count_ = 0;
    Random random_;
    std::uint64_t first_change_ = 0;
};

}  // namespace via::ka
