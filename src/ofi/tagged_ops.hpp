// SPDX-License-Identifier: BSD-3-Clause
// Messages with tags: what MPI's point-to-point calls become.
#pragma once

#include <cstdint>

#include <rdma/fi_tagged.h>

namespace via::ofi {

class EndpointHandle;
struct Trigger;

extern fi_ops_tagged tagged_operations;

// Deferred work.
[[nodiscard]] ssize_t defer_send(EndpointHandle& handle, const fi_msg_tagged& message,
                                 std::uint64_t flags, const Trigger& trigger);
[[nodiscard]] ssize_t defer_receive(EndpointHandle& handle, const fi_msg_tagged& message,
                                    std::uint64_t flags, const Trigger& trigger);

}  // namespace via::ofi
