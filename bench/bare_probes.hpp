// SPDX-License-Identifier: BSD-3-Clause
// The limits of the bare machine as probes.
#pragma once

#include "bare/bare_limits.hpp"
#include "probe.hpp"

namespace via::bench {

[[nodiscard]] Probe bare_one_line(bare::CorePair cores);
[[nodiscard]] Probe bare_two_lines(bare::CorePair cores);
[[nodiscard]] Probe bare_yield(bare::CorePair cores);
/// `buffers` is asked for at each take, because only the stream test knows.
[[nodiscard]] Probe bare_copy(int core, std::size_t bytes,
                              std::function<base::Result<std::size_t>()> buffers);

}  // namespace via::bench
