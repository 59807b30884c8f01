// SPDX-License-Identifier: BSD-3-Clause
// What happens to the packets that one host sends over one link. It is written into the alias of
// the host's device, so it lives exactly as long as the link does and needs no file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "quantities.hpp"

namespace via::lab {

struct LinkState {
    std::uint64_t rate = 0;  ///< bits per second; 0: as fast as the machine
    PartsPerMillion loss = 0;
    PartsPerMillion duplicate = 0;
    PartsPerMillion reorder = 0;
    PartsPerMillion corrupt = 0;
    base::Nanoseconds delay = 0;
    std::uint64_t seed = 1;  ///< of the relay's choices
    bool silent = false;     ///< everything vanishes, and nobody is told
    bool offload = true;     ///< trains of packets travel as one

    friend bool operator==(const LinkState&, const LinkState&) = default;

    /// Some or all packets go through the relay.
    [[nodiscard]] bool relayed() const { return delay != 0 || reorder != 0 || corrupt != 0; }
    /// How many of them.
    [[nodiscard]] PartsPerMillion relayed_share() const;
};

/// "via rate=1000000000 loss=20000"; only what is not as usual.
[[nodiscard]] std::string to_alias(const LinkState& state);
/// What it does not know it leaves out: an alias may be of anybody's making.
[[nodiscard]] LinkState from_alias(std::string_view alias);

}  // namespace via::lab
