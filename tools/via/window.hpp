// SPDX-License-Identifier: BSD-3-Clause
// Berkeley VIA's window: messages back to back from the client to the server. A message must never
// find an empty receive queue, so the server keeps `window` receives posted and tells, once in half
// a window, how many it has posted again (credits).
#pragma once

#include <atomic>
#include <cstdint>

#include "endpoint.hpp"
#include "terms.hpp"

namespace via::tool {

/// Returns when the server has confirmed the last message. False: the link says what failed.
[[nodiscard]] bool run_window_client(Endpoint& endpoint, const SessionTerms& session,
                                     std::uint64_t count, std::atomic<std::uint64_t>& progress);
[[nodiscard]] bool run_window_server(Endpoint& endpoint, const SessionTerms& session,
                                     std::uint64_t count, std::atomic<std::uint64_t>& progress);

}  // namespace via::tool
