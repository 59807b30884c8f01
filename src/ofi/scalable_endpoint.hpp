// SPDX-License-Identifier: BSD-3-Clause
// Scalable endpoints: several transmit and receive contexts under one name. Transmit context i and
// receive context i are an endpoint of the message layer, and these have ports one behind the
// other, of which the first is the name. So who knows the name knows where every receive context
// is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "ofi/endpoint.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class ScalableEndpoint final : public fid_ep {
  public:
    static int open(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context);

  private:
    /// What a program has of a context.
    struct Context;

    ScalableEndpoint(Domain& domain, const fi_info& info, void* context);

    /// Reserves the ports, when the endpoint or the first of its contexts is enabled.
    [[nodiscard]] int make_wires();
    [[nodiscard]] int make_wires_from(const mvich::HostPort& first);
    [[nodiscard]] int make_context(int index, std::size_t count, bool transmits,
                                   std::uint64_t flags, fid_ep** made, void* context);

    static Context& context_of(struct fid* fid) noexcept;
    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control(struct fid* fid, int command, void* argument);
    static int set_name(struct fid* fid, void* address, std::size_t bytes);
    static int get_name(struct fid* fid, void* address, std::size_t* bytes);
    static int transmit_context(fid_ep* endpoint, int index, fi_tx_attr* attributes, fid_ep** made,
                                void* context);
    static int receive_context(fid_ep* endpoint, int index, fi_rx_attr* attributes, fid_ep** made,
                               void* context);
    static int close_context(struct fid* fid);
    static int bind_context(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control_context(struct fid* fid, int command, void* argument);

    static fi_ops object_operations;
    static fi_ops context_object_operations;
    static fi_ops_ep operations;
    static fi_ops_cm name_operations;

    References open_contexts_;
    std::uint32_t address_format_;
    std::uint64_t transmit_flags_;
    std::uint64_t receive_flags_;
    std::size_t transmits_;
    std::size_t receives_;
    mvich::HostPort name_;  ///< wished for, until it is enabled
    bool has_vector_ = false;
    bool enabled_ = false;
    std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace via::ofi
