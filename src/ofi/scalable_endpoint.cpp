// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/scalable_endpoint.hpp"

#include <algorithm>

#include <rdma/fi_cm.h>

#include "ofi/absent_ops.hpp"
#include "ofi/address.hpp"
#include "ofi/address_vector.hpp"
#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/info.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

/// Runs of ports that are looked at before it is given up.
constexpr int most_runs = 64;

ScalableEndpoint& scalable_of(struct fid* fid) noexcept {
    return static_cast<ScalableEndpoint&>(*reinterpret_cast<fid_ep*>(fid));
}

std::size_t contexts_wanted(std::size_t count) noexcept {
    return count == 0 || count == FI_SHARED_CONTEXT ? 1 : count;
}

}  // namespace

struct ScalableEndpoint::Context : EndpointHandle {
    Context(ScalableEndpoint& its_owner, Endpoint& endpoint_below, bool is_transmit,
            std::uint64_t flags)
        : EndpointHandle(endpoint_below, is_transmit ? flags : 0, is_transmit ? 0 : flags),
          owner(its_owner),
          transmits(is_transmit),
          owner_reference(&its_owner.open_contexts_) {}
    ScalableEndpoint& owner;
    bool transmits;
    Reference owner_reference;
};

ScalableEndpoint::Context& ScalableEndpoint::context_of(struct fid* fid) noexcept {
    return static_cast<Context&>(handle_of(fid));
}

ScalableEndpoint::ScalableEndpoint(Domain& domain, const fi_info& info, void* context)
    : fid_ep{},
      address_format_(info.addr_format),
      transmit_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
      receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0),
      transmits_(contexts_wanted(info.ep_attr->tx_ctx_cnt)),
      receives_(contexts_wanted(info.ep_attr->rx_ctx_cnt)) {
    fid.fclass = FI_CLASS_SEP;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
    cm = &name_operations;
    msg = &no_messages;
    tagged = &no_tagged;
    rma = &no_rma;
    atomic = &no_atomics;
    for (std::size_t i = 0; i < std::max(transmits_, receives_); ++i)
        endpoints_.emplace_back(new Endpoint(domain, info, nullptr));
    name_ = endpoints_.front()->name();
}

int ScalableEndpoint::open(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
    return guarded([&] {
        if (info == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
        if (info->ep_attr->type != FI_EP_RDM) return -FI_ENOSYS;
        if (contexts_wanted(info->ep_attr->tx_ctx_cnt) > max_contexts ||
            contexts_wanted(info->ep_attr->rx_ctx_cnt) > max_contexts)
            return -FI_EINVAL;
        *endpoint = new ScalableEndpoint(static_cast<Domain&>(*domain), *info, context);
        return 0;
    });
}

int ScalableEndpoint::make_wires_from(const mvich::HostPort& first) {
    mvich::HostPort name = first;
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
        Endpoint& endpoint = *endpoints_[i];
        const bool fits = i == 0 || name.port != 0;
        (void)endpoint.set_name(name);
        if (const int error = fits ? endpoint.make_wire() : -FI_EADDRINUSE) {
            while (i-- != 0)
                endpoints_[i]->wire_.reset();
            return error;
        }
        name = endpoint.name();
        ++name.port;
    }
    return 0;
}

int ScalableEndpoint::make_wires() {
    if (enabled_) return 0;
    if (!has_vector_) return -FI_ENOAV;
    int error = -FI_EADDRINUSE;
    for (int run = 0; run < most_runs && error == -FI_EADDRINUSE; ++run) {
        error = make_wires_from(name_);
        if (name_.port != 0) break;
    }
    enabled_ = error == 0;
    return error;
}

int ScalableEndpoint::make_context(int index, std::size_t count, bool transmits,
                                   std::uint64_t flags, fid_ep** made, void* context) {
    return guarded([&] {
        if (index < 0 || static_cast<std::size_t>(index) >= count) return -FI_EINVAL;
        auto handle = std::make_unique<Context>(*this, *endpoints_[static_cast<std::size_t>(index)],
                                                transmits, flags);
        handle->fid.fclass = transmits ? FI_CLASS_TX_CTX : FI_CLASS_RX_CTX;
        handle->fid.context = context;
        handle->fid.ops = &context_object_operations;
        handle->cm = &name_operations;
        *made = handle.release();
        return 0;
    });
}

int ScalableEndpoint::transmit_context(fid_ep* endpoint, int index, fi_tx_attr* attributes,
                                       fid_ep** made, void* context) {
    ScalableEndpoint& self = scalable_of(&endpoint->fid);
    return self.make_context(index, self.transmits_, true,
                             attributes != nullptr ? attributes->op_flags : self.transmit_flags_,
                             made, context);
}

int ScalableEndpoint::receive_context(fid_ep* endpoint, int index, fi_rx_attr* attributes,
                                      fid_ep** made, void* context) {
    ScalableEndpoint& self = scalable_of(&endpoint->fid);
    return self.make_context(index, self.receives_, false,
                             attributes != nullptr ? attributes->op_flags : self.receive_flags_,
                             made, context);
}

int ScalableEndpoint::close(struct fid* fid) {
    ScalableEndpoint& self = scalable_of(fid);
    if (self.open_contexts_.any()) return -FI_EBUSY;
    for (const auto& endpoint : self.endpoints_)
        if (endpoint->aliases_.any()) return -FI_EBUSY;
    delete &self;
    return 0;
}

int ScalableEndpoint::bind(struct fid* fid, struct fid* what, std::uint64_t) {
    return guarded([&] {
        ScalableEndpoint& self = scalable_of(fid);
        if (what->fclass != FI_CLASS_AV) return what->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
        if (self.enabled_) return -FI_EOPBADSTATE;
        for (const auto& endpoint : self.endpoints_)
            endpoint->take_vector(static_cast<AddressVector&>(*reinterpret_cast<fid_av*>(what)));
        self.has_vector_ = true;
        return 0;
    });
}

int ScalableEndpoint::control(struct fid* fid, int command, void*) {
    return guarded(
        [&] { return command == FI_ENABLE ? scalable_of(fid).make_wires() : -FI_ENOSYS; });
}

int ScalableEndpoint::set_name(struct fid* fid, void* address, std::size_t bytes) {
    return guarded([&] {
        if (fid->fclass != FI_CLASS_SEP) return -FI_ENOSYS;
        ScalableEndpoint& self = scalable_of(fid);
        const auto name = read_address(self.address_format_, address, bytes);
        if (!name) return -FI_EINVAL;
        if (self.enabled_) return -FI_EOPBADSTATE;
        self.name_ = *name;
        return 0;
    });
}

/// A context has the name of all.
int ScalableEndpoint::get_name(struct fid* fid, void* address, std::size_t* bytes) {
    return guarded([&] {
        const ScalableEndpoint& self =
            fid->fclass == FI_CLASS_SEP ? scalable_of(fid) : context_of(fid).owner;
        return write_address(self.address_format_,
                             self.enabled_ ? self.endpoints_.front()->name() : self.name_, address,
                             bytes);
    });
}

int ScalableEndpoint::close_context(struct fid* fid) {
    Context* const self = &context_of(fid);
    if (self->transmits)
        self->endpoint->unbind_transmit();
    else
        self->endpoint->unbind_receive();
    delete self;
    return 0;
}

int ScalableEndpoint::bind_context(struct fid* fid, struct fid* what, std::uint64_t flags) {
    return guarded([&] {
        const Context& self = context_of(fid);
        Endpoint& endpoint = *self.endpoint;
        const std::uint64_t side = self.transmits ? FI_SEND | FI_READ | FI_WRITE
                                                  : FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
        if (flags & ~(side | FI_SELECTIVE_COMPLETION)) return -FI_EBADFLAGS;
        switch (what->fclass) {
            case FI_CLASS_CQ:
                return endpoint.bind_queue(
                    static_cast<CompletionQueue&>(*reinterpret_cast<fid_cq*>(what)), flags);
            case FI_CLASS_CNTR:
                return endpoint.bind_counter(
                    static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(what)), flags);
            case FI_CLASS_EQ:
                return 0;
            default:
                return -FI_EINVAL;
        }
    });
}

int ScalableEndpoint::control_context(struct fid* fid, int command, void* argument) {
    if (command != FI_ENABLE) return Endpoint::control(fid, command, argument);
    return guarded([&] {
        Context& self = context_of(fid);
        const Endpoint& endpoint = *self.endpoint;
        const bool tells = self.transmits ? endpoint.transmit_queue_ || endpoint.sends_ ||
                                                endpoint.reads_ || endpoint.writes_
                                          : endpoint.receive_queue_ || endpoint.receives_;
        if (!tells) return -FI_ENOCQ;
        if (const int error = self.owner.make_wires()) return error;
        self.settle();
        self.cm = &name_operations;
        return 0;
    });
}

fi_ops ScalableEndpoint::object_operations = {
    .size = sizeof(fi_ops),
    .close = ScalableEndpoint::close,
    .bind = ScalableEndpoint::bind,
    .control = ScalableEndpoint::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops ScalableEndpoint::context_object_operations = {
    .size = sizeof(fi_ops),
    .close = ScalableEndpoint::close_context,
    .bind = ScalableEndpoint::bind_context,
    .control = ScalableEndpoint::control_context,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_ep ScalableEndpoint::operations = {
    .size = sizeof(fi_ops_ep),
    .cancel = not_supported,
    .getopt = not_supported,
    .setopt = not_supported,
    .tx_ctx = ScalableEndpoint::transmit_context,
    .rx_ctx = ScalableEndpoint::receive_context,
    .rx_size_left = not_supported,
    .tx_size_left = not_supported,
};

fi_ops_cm ScalableEndpoint::name_operations = {
    .size = sizeof(fi_ops_cm),
    .setname = ScalableEndpoint::set_name,
    .getname = ScalableEndpoint::get_name,
    .getpeer = not_supported,
    .connect = not_supported,
    .listen = not_supported,
    .accept = not_supported,
    .reject = not_supported,
    .shutdown = not_supported,
    .join = not_supported,
};

}  // namespace via::ofi
