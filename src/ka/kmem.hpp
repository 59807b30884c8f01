// SPDX-License-Identifier: BSD-3-Clause
// kmem, the agent's side: the arenas of one process. An arena is a memfd that belongs to one
// process and one protection tag, so that handing it to a peer of that tag shows nothing else. The
// process itself allocates the pages of its blocks and gives them back: they are in its account,
// and the agent never waits for memory to be zeroed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "ka/buddy.hpp"
#include "ka/limits.hpp"
#include "ka/rmmt.hpp"
#include "ka/shared_fd.hpp"

namespace via::ka {

struct KmemSettings {
    std::uint64_t arena_bytes = std::uint64_t{64} << 20;
    bool huge_pages = true;  ///< where the system has free ones
};

class Kmem {
  public:
    Kmem(const KmemSettings& settings, const Limits& limits)
        : settings_(settings), limits_(limits) {}

    struct Arena {
        SharedFd file;
        std::uint64_t bytes = 0;
        ProtectionTag tag = null_tag;
        bool huge_pages = false;
        bool dedicated = false;         ///< made for one block, larger than the usual arena
        std::optional<Buddy> buddy;     // unless dedicated
        std::uint64_t block_bytes = 0;  // dedicated: of the block; 0: free
        std::map<std::uint64_t, std::size_t> regions;  // registered regions, by block
    };
    struct Allocation {
        std::uint32_t arena = no_arena;
        Buddy::Block block;
        bool new_arena = false;
    };
    enum class Freed { KeepArena, ReleasedArena };

    [[nodiscard]] base::Result<Allocation> allocate(std::uint64_t bytes, ProtectionTag tag,
                                                    bool huge_pages = true);
    /// InvalidState: regions are still registered in it. InvalidArgument: no block starts there.
    [[nodiscard]] base::Result<Freed> free(std::uint32_t arena, std::uint64_t offset);

    /// Arenas up to this number have existed; they are never used again.
    void set_floor(std::uint32_t arena) noexcept;
    /// What a process kept from an earlier agent. The file is whatever the process sent.
    [[nodiscard]] base::Result<void> restore_arena(std::uint32_t arena, base::UniqueFd file,
                                                   std::uint64_t bytes, ProtectionTag tag,
                                                   bool dedicated);
    [[nodiscard]] base::Result<void> restore_block(std::uint32_t arena, Buddy::Block block);

    [[nodiscard]] const Arena* find(std::uint32_t arena) const;
    /// Counts a region in the block that holds all of the range. False: no block does.
    [[nodiscard]] bool add_region(std::uint32_t arena, std::uint64_t offset, std::uint64_t bytes);
    void remove_region(std::uint32_t arena, std::uint64_t offset, std::uint64_t bytes);

    [[nodiscard]] std::uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }
    [[nodiscard]] std::size_t arenas() const noexcept { return arenas_.size(); }

    /// Whether the system has so many bytes of free huge pages now.
    [[nodiscard]] static bool huge_pages_free(std::uint64_t bytes);

  private:
    [[nodiscard]] base::Result<std::uint32_t> make_arena(std::uint64_t bytes, ProtectionTag tag,
                                                         bool dedicated, bool huge_pages);
    [[nodiscard]] static std::optional<Buddy::Block> block_of(const Arena& arena,
                                                              std::uint64_t offset,
                                                              std::uint64_t bytes);

    KmemSettings settings_;
    Limits limits_;
    std::map<std::uint32_t, Arena> arenas_;
    std::uint32_t last_arena_ = no_arena;
    std::uint64_t arena_bytes_ = 0;
    std::uint64_t allocated_bytes_ = 0;
};

}  // namespace via::ka
