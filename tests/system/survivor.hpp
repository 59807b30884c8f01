// SPDX-License-Identifier: BSD-3-Clause
// The role "survive": the end of a connection that stays, in whatever its program does, while the
// other one goes. It does so again and again, as often as it is told.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "system/loaded_side.hpp"
#include "vipl/harness.hpp"

namespace via::test {

/// What the survivor's program does when the other one dies.
enum class Pastime : std::uint8_t {
    Busy,    ///< posts and polls
    Waits,   ///< sleeps in VipRecvWait or VipCQWait
    Silent,  ///< makes no call at all
};
[[nodiscard]] const char* name_of(Pastime pastime);

/// What the test tells the survivor at first. Then they meet once when the load runs, so that the
/// other end can be made an end of, and the survivor answers with a Loss.
struct Survival {
    Plan plan;
    Pastime pastime = Pastime::Busy;
    std::uint64_t completions = 0;  ///< so many before they meet
    bool end = false;               ///< no further round
};
[[nodiscard]] std::string describe(const Survival& round);

struct Loss {
    base::Nanoseconds moment = 0;   ///< when CONN_LOST came; 0: it did not
    std::uint64_t completions = 0;  ///< of the round, before and after
};

}  // namespace via::test
