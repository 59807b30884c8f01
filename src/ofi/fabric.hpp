// SPDX-License-Identifier: BSD-3-Clause
// The fabric: what domains, event queues and listening endpoints are opened on.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include <rdma/fabric.h>

#include "base/result.hpp"
#include "mvich/device.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

struct ConnectionRequest;

int open_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context);

class Fabric final : public fid_fabric {
  public:
    Fabric(std::uint32_t version, void* context);
    ~Fabric();

    [[nodiscard]] References& references() noexcept { return references_; }

    /// The device of listening endpoints, which belong to no domain. Open while one of them is.
    [[nodiscard]] base::Result<std::shared_ptr<mvich::Device>> listening_device();

    /// Connection requests that the program has been told of and has not answered. Handles that
    /// were answered are not in it any more.
    void add(std::unique_ptr<ConnectionRequest> request);
    [[nodiscard]] std::unique_ptr<ConnectionRequest> take_request(struct fid* handle) noexcept;

  private:
    static int close(struct fid* fid);
    static int try_wait(fid_fabric* fabric, struct fid** fids, int count);
    static int open_domain_with_flags(fid_fabric* fabric, fi_info* info, fid_domain** domain,
                                      std::uint64_t flags, void* context);

    static fi_ops object_operations;
    static fi_ops_fabric operations;

    References references_;
    std::mutex mutex_;
    std::weak_ptr<mvich::Device> listening_device_;
    std::set<std::unique_ptr<ConnectionRequest>> requests_;
};

}  // namespace via::ofi
