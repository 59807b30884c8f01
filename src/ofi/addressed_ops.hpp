// SPDX-License-Identifier: BSD-3-Clause
// The operations of endpoints whose address vector is no plain one: its numbers may name receive
// contexts, or be another process's. They find out the number that is meant and go on as all do.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

namespace via::ofi {

extern fi_ops_msg addressed_messages;
extern fi_ops_tagged addressed_tagged;
extern fi_ops_rma addressed_rma;
extern fi_ops_atomic addressed_atomics;

}  // namespace via::ofi
