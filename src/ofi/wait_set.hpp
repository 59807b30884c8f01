// SPDX-License-Identifier: BSD-3-Clause
// Wait sets: one wait object for several queues and counters.
#pragma once

#include <mutex>
#include <vector>

#include <rdma/fi_eq.h>

#include "ofi/references.hpp"
#include "ofi/wait_object.hpp"
#include "ofi/waitable.hpp"

namespace via::ofi {

class Fabric;

class WaitSet final : public fid_wait {
  public:
    static int open(fid_fabric* fabric, fi_wait_attr* attributes, fid_wait** set);

    [[nodiscard]] WaitObject& object() noexcept { return object_; }
    void add(Waitable& member);
    void remove(Waitable& member) noexcept;
    /// As Waitable::try_wait(), for all members.
    [[nodiscard]] int try_wait();

  private:
    explicit WaitSet(Fabric& fabric);
    static int close(struct fid* fid);
    static int control(struct fid* fid, int command, void* argument);
    static int wait(fid_wait* set, int timeout);
    [[nodiscard]] bool any_ready();

    static fi_ops object_operations;
    static fi_ops_wait operations;

    Reference fabric_;
    WaitObject object_;
    std::mutex mutex_;
    std::vector<Waitable*> members_;
};

}  // namespace via::ofi
