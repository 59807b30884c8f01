// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace via::sim {

/// For products of times and counts that 64 bits can not hold.
__extension__ using Wide = unsigned __int128;

}  // namespace via::sim
