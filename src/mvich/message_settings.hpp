// SPDX-License-Identifier: BSD-3-Clause
// The settings of the message layer, checked against each other.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "mvich/protocol_choice.hpp"

namespace via::mvich {

struct MessageSettings {
    ProtocolSettings protocol;
    std::uint32_t vbuf_bytes = 8192;
    std::uint32_t credits = 32;
    std::uint32_t credit_preserve = 4;
    bool piggyback = true;  ///< credits ride on messages
    std::uint32_t vbufs_per_region = 64;
    std::uint32_t vbuf_regions = 1024;
    std::uint32_t cache_entries = 1024;
    std::uint64_t connect_milliseconds = 10'000;

    bool credits_were_set = false;
    /// Vbufs of the pool that are never posted for what comes.
    static constexpr std::size_t vbufs_for_sending = 4;

    /// What a connection can do. `in_place`: the peer is on this host, and packets of up to
    /// `longest_packet` bytes are seen where they lie. `longest_transfer`: of RDMA.
    [[nodiscard]] LaneAbilities abilities(bool in_place, bool one_copy,
                                          std::uint32_t longest_packet,
                                          std::uint64_t longest_transfer) const noexcept;
    /// How many packets a peer may have under way to here, those for control included. Inside a
    /// host no vbufs are posted for them, so it may be more.
    [[nodiscard]] std::uint32_t window(bool in_place) const noexcept;
    /// How many of them in the beginning. Between hosts most connections never need more than a
    /// few; one that does is given the rest, while all together hold no more vbufs than
    /// `vbufs_of_wide_windows`. A number that was asked for holds at once.
    [[nodiscard]] std::uint32_t first_window(bool in_place) const noexcept;
    static constexpr std::size_t vbufs_of_wide_windows = 512;

    /// From the environment and the settings file. An error names the setting and what it may be.
    [[nodiscard]] static base::Result<MessageSettings> read();
    /// The same of values: what the one allows depends on the other.
    [[nodiscard]] base::Result<void> check() const;
};

}  // namespace via::mvich
