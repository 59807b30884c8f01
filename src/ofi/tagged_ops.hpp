// SPDX-License-Identifier: BSD-3-Clause
// Messages with tags: what MPI's point-to-point calls become.
#pragma once

#include <rdma/fi_tagged.h>

namespace via::ofi {

extern fi_ops_tagged tagged_operations;

}  // namespace via::ofi
