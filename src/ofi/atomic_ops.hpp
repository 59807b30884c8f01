// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations at a peer's memory.
#pragma once

#include <cstddef>

#include <rdma/fi_atomic.h>

#include "mvich/atomic_operation.hpp"

namespace via::ofi {

extern fi_ops_atomic atomic_operations;

struct AtomicSupport {
    std::size_t count = 0;  ///< elements per operation; 0: not supported
    std::size_t element_bytes = 0;
};
[[nodiscard]] AtomicSupport atomic_support(mvich::AtomicUse use, fi_datatype datatype,
                                           fi_op operation) noexcept;

}  // namespace via::ofi
