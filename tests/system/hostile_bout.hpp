// SPDX-License-Identifier: BSD-3-Clause
// One bout: a connection that the enemy makes, what of the victim's memory it knows and may touch,
// and how it attacks. The victim draws it and tells the enemy.
#pragma once

#include <array>
#include <cstdint>

#include "vipl/harness.hpp"

namespace via::test {

inline constexpr std::uint32_t region_bytes = 16U << 10;
inline constexpr std::uint32_t longest_to_enemy = 200000;
inline constexpr int most_to_enemy = 100;
inline constexpr std::uint32_t longest_from_enemy = 300;

struct Target {
    std::uint64_t address = 0;
    VIP_MEM_HANDLE handle = 0;
    std::uint32_t bytes = 0;
};

enum Place : std::uint32_t {
    Granted,       ///< RDMA write and read, the enemy's tag
    GrantedKmem,   ///< the same in memory that the enemy maps
    ReadOnly,      ///< no RDMA write
    Closed,        ///< no RDMA at all
    OtherTag,      ///< everything, for somebody else
    OtherTagKmem,  ///< the same in kmem
    Unregistered,
    place_count
};

enum class Attack : std::uint32_t {
    Requests,   ///< only what the library lets it ask for
    Positions,  ///< control words, doorbells, counters, data: the frames stay honest
    Frames,     ///< lies in frames
    Anything,
    Last = Anything
};

struct Bout {
    std::uint64_t seed = 0;
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    Attack attack = Attack::Requests;
    bool last = false;
    std::array<Target, place_count> targets{};
    Address address;
};

}  // namespace via::test
