// SPDX-License-Identifier: BSD-3-Clause
// Memory regions: windows of the message layer. Local buffers need none.
#pragma once

#include <cstdint>

#include <rdma/fi_domain.h>

#include "ofi/counter.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class Domain;

class MemoryRegion final : public fid_mr {
  public:
    static int open(struct fid* domain, const void* buffer, std::size_t bytes, std::uint64_t access,
                    std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** region,
                    void* context);
    static int open_pieces(struct fid* domain, const iovec* pieces, std::size_t count,
                           std::uint64_t access, std::uint64_t offset, std::uint64_t key,
                           std::uint64_t flags, fid_mr** region, void* context);
    static int open_attributes(struct fid* domain, const fi_mr_attr* attributes,
                               std::uint64_t flags, fid_mr** region);

    /// A peer has written or read here.
    void count(bool is_write) noexcept;

  private:
    MemoryRegion(Domain& domain, void* context);
    ~MemoryRegion();

    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control(struct fid* fid, int command, void* argument);

    static fi_ops object_operations;

    Domain& domain_;
    Reference domain_reference_;
    std::uint64_t base_ = 0;  ///< where addresses of the window begin
    bool registered_ = false;
    Counter* writes_ = nullptr;
    Counter* reads_ = nullptr;
};

}  // namespace via::ofi
