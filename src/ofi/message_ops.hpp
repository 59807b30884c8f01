// SPDX-License-Identifier: BSD-3-Clause
// Messages without tags.
#pragma once

#include <rdma/fi_endpoint.h>

namespace via::ofi {

extern fi_ops_msg message_operations;

}  // namespace via::ofi
