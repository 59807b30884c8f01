// SPDX-License-Identifier: BSD-3-Clause
// One-sided reads and writes.
#pragma once

#include <rdma/fi_rma.h>

namespace via::ofi {

extern fi_ops_rma rma_operations;

}  // namespace via::ofi
