// SPDX-License-Identifier: BSD-3-Clause
// One-sided reads and writes.
#pragma once

#include <cstdint>

#include <rdma/fi_rma.h>

#include "mvich/order.hpp"

namespace via::ofi {

class EndpointHandle;
struct Trigger;

extern fi_ops_rma rma_operations;

/// Deferred work.
[[nodiscard]] ssize_t defer_transfer(EndpointHandle& handle, mvich::Remote what,
                                     const fi_msg_rma& message, std::uint64_t flags,
                                     const Trigger& trigger);

}  // namespace via::ofi
