// SPDX-License-Identifier: BSD-3-Clause
// Berkeley VIA's pingpong: a message goes to the other side, which answers with one as long.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "endpoint.hpp"
#include "terms.hpp"

namespace via::tool {

struct PingpongRun {
    std::uint64_t first = 0;  ///< number of the first round trip, going on from the last run
    std::uint64_t count = 0;  ///< round trips; a multiple of the batch where samples are taken
    std::uint32_t batch = 1;  ///< round trips between two looks at the clock
};

/// `samples` (if not empty: count / batch of them) get the nanoseconds of each batch. False: the
/// endpoint's link says what failed.
[[nodiscard]] bool run_pingpong_client(Endpoint& endpoint, const SessionTerms& session,
                                       const PingpongRun& run, std::span<std::uint64_t> samples,
                                       std::atomic<std::uint64_t>& progress);
[[nodiscard]] bool run_pingpong_server(Endpoint& endpoint, const SessionTerms& session,
                                       const PingpongRun& run,
                                       std::atomic<std::uint64_t>& progress);

}  // namespace via::tool
