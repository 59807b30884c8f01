// SPDX-License-Identifier: BSD-3-Clause
// Poll sets: which of several queues and counters have something.
#pragma once

#include <mutex>
#include <vector>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "ofi/references.hpp"
#include "ofi/waitable.hpp"

namespace via::ofi {

class Domain;

class PollSet final : public fid_poll {
  public:
    static int open(fid_domain* domain, fi_poll_attr* attributes, fid_poll** set);

  private:
    struct Member {
        struct fid* fid;
        Waitable* waitable;
    };

    explicit PollSet(Domain& domain);
    static int poll(fid_poll* set, void** contexts, int count);
    static int add(fid_poll* set, struct fid* member, std::uint64_t flags);
    static int remove(fid_poll* set, struct fid* member, std::uint64_t flags);
    static int close(struct fid* fid);

    static fi_ops_poll operations;
    static fi_ops object_operations;

    Domain& domain_;
    Reference domain_reference_;
    std::mutex mutex_;
    std::vector<Member> members_;
};

/// Null: no object of a kind that can be waited for.
[[nodiscard]] Waitable* waitable_of(struct fid* fid) noexcept;

}  // namespace via::ofi
