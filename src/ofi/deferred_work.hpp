// SPDX-License-Identifier: BSD-3-Clause
// Deferred work: operations that a program gives to its domain, to be started when a counter has
// reached a value. They tell a counter of their own when they are done.
#pragma once

#include <rdma/fi_trigger.h>

namespace via::ofi {

class Domain;

// What fi_control of a domain returns.
[[nodiscard]] int queue_work(Domain& domain, const fi_deferred_work* work);
[[nodiscard]] int cancel_work(Domain& domain, const fi_deferred_work* work);
/// All work that waits for a counter; null: for any.
[[nodiscard]] int flush_work(Domain& domain, const struct fid* counter);

}  // namespace via::ofi
