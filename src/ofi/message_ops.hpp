// SPDX-License-Identifier: BSD-3-Clause
// Messages without tags.
#pragma once

#include <cstdint>

#include <rdma/fi_endpoint.h>

namespace via::ofi {

class EndpointHandle;
struct Trigger;

extern fi_ops_msg message_operations;

// Deferred work.
[[nodiscard]] ssize_t defer_send(EndpointHandle& handle, const fi_msg& message, std::uint64_t flags,
                                 const Trigger& trigger);
[[nodiscard]] ssize_t defer_receive(EndpointHandle& handle, const fi_msg& message,
                                    std::uint64_t flags, const Trigger& trigger);

}  // namespace via::ofi
