// SPDX-License-Identifier: BSD-3-Clause
// A sleep of microseconds. The kernel lets a thread sleep 50 us longer than it asked for, to wake
// several at once; for as long as the nap lasts this thread asks it not to.
#pragma once

#include "base/clock.hpp"

namespace via::base {

/// May end early, when a signal comes.
void nap(Nanoseconds span) noexcept;

}  // namespace via::base
