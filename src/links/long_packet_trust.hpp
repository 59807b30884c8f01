// SPDX-License-Identifier: BSD-3-Clause
// Whether a link may carry long packets. One datagram that is lost, or that another overtakes,
// costs all of such a packet. So they are for links that lose hardly anything: after each loss they
// wait until many short ones have come through, and then one has to show the way for the others.
#pragma once

#include <algorithm>
#include <cstdint>

namespace via::links {

class LongPacketTrust {
  public:
    static constexpr std::uint32_t first_patience = 1024;
    static constexpr std::uint32_t longest_patience = 1U << 20U;
    /// So many in a row, and earlier losses are forgiven.
    static constexpr std::uint32_t forgiven_after = 64;

    [[nodiscard]] bool allows() const noexcept { return waits_for_ == 0 && (trusted_ || !tried_); }
    void sent_long() noexcept { tried_ = true; }
    void came(bool was_long) noexcept {
        if (!was_long) {
            if (waits_for_ != 0) --waits_for_;
            return;
        }
        trusted_ = true;
        if (++came_in_a_row_ == forgiven_after) patience_ = first_patience;
    }
    void lost(bool was_long) noexcept {
        // Others that were on the way with it say nothing new.
        if (was_long && waits_for_ == 0 && came_in_a_row_ < forgiven_after)
            patience_ = std::min(2 * patience_, longest_patience);
        waits_for_ = patience_;
        trusted_ = tried_ = false;
        came_in_a_row_ = 0;
    }

    /// A long one that counted as lost was only late, as from a host that stood still.
    void came_late() noexcept {
        waits_for_ = 0;
        tried_ = trusted_ = true;
        patience_ = std::max(patience_ / 2, first_patience);
    }

  private:
    std::uint32_t patience_ = first_patience;  ///< short packets between a loss and the next trial
    std::uint32_t waits_for_ = 0;
    std::uint32_t came_in_a_row_ = 0;  ///< long ones
    bool tried_ = false;               ///< one is on its way, or has come
    bool trusted_ = false;             ///< one has come
};

}  // namespace via::links
