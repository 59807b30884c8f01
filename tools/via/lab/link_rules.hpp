// SPDX-License-Identifier: BSD-3-Clause
// A link's state as the rules of the kernel's packet filter. Pure text.
#pragma once

#include <string>

#include "link_state.hpp"

namespace via::lab {

/// For the sending host: what is doubled, and what goes through the relay. Replaces the rules that
/// were there, in one step.
[[nodiscard]] std::string sending_rules(unsigned link, const LinkState& state);

/// For the other end of the link, `device`: what is dropped of what arrives there. It is done there
/// because a sender hears of a drop on its own side.
[[nodiscard]] std::string arrival_rules(const std::string& device, const LinkState& state);

}  // namespace via::lab
