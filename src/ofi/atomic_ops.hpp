// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations at a peer's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "mvich/atomic_operation.hpp"
#include "mvich/order.hpp"

namespace via::ofi {

class EndpointHandle;
struct Trigger;

extern fi_ops_atomic atomic_operations;

struct AtomicSupport {
    std::size_t count = 0;  ///< elements per operation; 0: not supported
    std::size_t element_bytes = 0;
};
[[nodiscard]] AtomicSupport atomic_support(mvich::AtomicUse use, fi_datatype datatype,
                                           fi_op operation) noexcept;

/// What fi_atomicvalid and its like ask.
template <mvich::AtomicUse Use>
int is_valid_atomic(fid_ep*, fi_datatype datatype, fi_op operation, std::size_t* count) {
    const AtomicSupport support = atomic_support(Use, datatype, operation);
    if (support.count == 0) return -FI_EOPNOTSUPP;
    if (count != nullptr) *count = support.count;
    return 0;
}

/// Deferred work.
[[nodiscard]] ssize_t defer_atomic(EndpointHandle& handle, mvich::Remote what,
                                   const fi_msg_atomic& message, std::span<const fi_ioc> compares,
                                   std::span<const fi_ioc> results, std::uint64_t flags,
                                   const Trigger& trigger);

}  // namespace via::ofi
