// SPDX-License-Identifier: BSD-3-Clause
// What a process has at the kernel agent, as the process itself keeps it: from this it tells the
// next agent what the last one knew. Guarded by the client's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "ka/protocol.hpp"

namespace via::ka {

class Holdings {
  public:
    struct Arena {
        base::UniqueFd file;
        base::Mapping mapping;
        ProtectionTag tag = null_tag;
        bool dedicated = false;
        bool huge_pages = false;
        std::map<std::uint64_t, std::uint64_t> blocks;  ///< bytes by offset
    };

    // Regions, by handle.
    std::unordered_map<MemoryHandle, RegisterRequest> regions;
    std::set<std::uint32_t> vis;

    // Connections, by number. Their end is marked here, which needs no memory.
    struct Connection {
        ConnectionRecord record;
        bool alone = false;  ///< its other end has left …
        bool told = false;   ///< … and the process knows
    };
    std::unordered_map<std::uint64_t, Connection> connections;

    /// Maps a new arena. The mapping stays where it is until the arena is released.
    [[nodiscard]] base::Result<void> add_arena(const KmemAllocatedReply& reply,
                                               base::UniqueFd file);
    [[nodiscard]] base::Result<KmemBlock> add_block(const KmemAllocatedReply& reply);
    /// The block that starts exactly there.
    [[nodiscard]] std::optional<KmemBlock> find_block(const void* address) const;
    /// Gives the pages back, or unmaps the whole arena if the agent has released it.
    void remove_block(std::uint32_t arena, std::uint64_t offset, bool arena_released);
    /// The arena that holds all of the range: its number and the offset.
    [[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint64_t>> locate(
        std::uint64_t address, std::uint64_t bytes) const;

    [[nodiscard]] const std::map<std::uint32_t, Arena>& arenas() const noexcept { return arenas_; }
    [[nodiscard]] const Arena* find_arena(std::uint32_t arena) const;
    /// The highest number that an arena of this process has ever had.
    [[nodiscard]] std::uint32_t arena_floor() const noexcept { return arena_floor_; }

    [[nodiscard]] bool empty() const noexcept {
        return regions.empty() && vis.empty() && connections.empty() && arenas_.empty();
    }

  private:
    std::map<std::uint32_t, Arena> arenas_;
    std::map<std::uint64_t, std::uint32_t> arenas_by_address_;
    std::uint32_t arena_floor_ = no_arena;
};

}  // namespace via::ka
