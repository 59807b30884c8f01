// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/endpoint.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>

#include "ofi/absent_ops.hpp"
#include "ofi/address.hpp"
#include "ofi/address_vector.hpp"
#include "ofi/addressed_ops.hpp"
#include "ofi/atomic_ops.hpp"
#include "ofi/connection_manager.hpp"
#include "ofi/domain.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/info.hpp"
#include "ofi/message_ops.hpp"
#include "ofi/named_addresses.hpp"
#include "ofi/passive_endpoint.hpp"
#include "ofi/provider.hpp"
#include "ofi/rma_ops.hpp"
#include "ofi/shared_context.hpp"
#include "ofi/stubs.hpp"
#include "ofi/tagged_ops.hpp"
#include "ofi/trigger_queue.hpp"

namespace via::ofi {
namespace {

fi_ops_collective no_collectives = {
    .size = sizeof(fi_ops_collective),
    .barrier = not_supported,
    .broadcast = not_supported,
    .alltoall = not_supported,
    .allreduce = not_supported,
    .allgather = not_supported,
    .reduce_scatter = not_supported,
    .reduce = not_supported,
    .scatter = not_supported,
    .gather = not_supported,
    .msg = not_supported,
    .barrier2 = not_supported,
};

}  // namespace

EndpointHandle::EndpointHandle(Endpoint& owner, std::uint64_t transmit_operation_flags,
                               std::uint64_t receive_operation_flags)
    : fid_ep{},
      endpoint(&owner),
      transmit_flags(transmit_operation_flags),
      receive_flags(receive_operation_flags) {
    fid.fclass = FI_CLASS_EP;
    fid.ops = &Endpoint::object_operations;
    ops = &Endpoint::operations;
    msg = &message_operations;
    tagged = &tagged_operations;
    rma = &rma_operations;
    atomic = &atomic_operations;
    collective = &no_collectives;
    if (!owner.is_datagram()) return;
    tagged = &no_tagged;
    rma = &no_rma;
    atomic = &no_atomics;
}

void EndpointHandle::settle() noexcept {
    const bool straight =
        !endpoint->is_datagram() && !((transmit_flags | receive_flags) & FI_TRIGGER);
    wire = straight ? endpoint->wire() : nullptr;
    if (!endpoint->has_plain_vector()) {
        msg = &addressed_messages;
        if (!endpoint->is_datagram()) {
            tagged = &addressed_tagged;
            rma = &addressed_rma;
            atomic = &addressed_atomics;
        }
    }
    inject_limit = mvich::Device::limits().inject_bytes;
    cm = endpoint->connection() != nullptr ? &connected_operations : &name_operations;
    always_completes_transmit = endpoint->selective_transmit() ? 0 : FI_COMPLETION;
    always_completes_receive = endpoint->selective_receive() ? 0 : FI_COMPLETION;
    // Data and a fence are said with an operation, not by default.
    send_order = order_flags(transmit_flags & ~(FI_REMOTE_CQ_DATA | FI_FENCE));
    receive_order = order_flags(receive_flags & FI_MULTI_RECV);
    send_completion = transmit_completion(transmit_flags);
    default_receive_completion = receive_completion(receive_flags);
    // An inject is over when the call returns, unless somebody counts it or the target must have
    // it: counters then tell what the program's flags say they do.
    const std::uint32_t delivered = send_order & mvich::order_delivered;
    inject_order = mvich::order_inject | (endpoint->counts_sends() ? delivered : 0);
    remote_inject_order = mvich::order_inject | delivered;
    peer_mask = endpoint->connection() != nullptr ? 0 : 0xFFFFFFFF;
    any_source = (endpoint->caps() & FI_DIRECTED_RECV) && endpoint->connection() == nullptr
                     ? 0
                     : mvich::any_peer;
}

/// Datagrams have a longest length; of a handle with FI_TRIGGER all operations wait.
ssize_t EndpointHandle::send_otherwise(const mvich::SendOrder& order) noexcept {
    mvich::Endpoint* const way = endpoint->wire();
    if (way == nullptr) return -FI_EOPBADSTATE;
    if (transmit_flags & FI_TRIGGER) return defer(order);
    if (!endpoint->is_datagram()) return send_on(*way, order);
    std::size_t room = max_datagram_bytes;
    for (const iovec& piece : order.pieces) {
        if (piece.iov_len > room) return -FI_EMSGSIZE;
        room -= piece.iov_len;
    }
    return send_on(*way, order);
}

ssize_t EndpointHandle::receive_otherwise(const mvich::ReceiveOrder& order) noexcept {
    mvich::Endpoint* const way = endpoint->wire();
    if (way == nullptr) return -FI_EOPBADSTATE;
    return receive_flags & FI_TRIGGER ? defer(order) : refusal(way->receive(order));
}

ssize_t EndpointHandle::remote_otherwise(const mvich::RemoteOrder& order) noexcept {
    mvich::Endpoint* const way = endpoint->wire();
    if (way == nullptr) return -FI_EOPBADSTATE;
    return transmit_flags & FI_TRIGGER ? defer(order) : remote_on(*way, order);
}

fi_addr_t EndpointHandle::destination_number(fi_addr_t number) const noexcept {
    const fi_addr_t meant = rotated(number, endpoint->context_bits_);
    if (endpoint->source_)
        endpoint->source_->follow_for(static_cast<mvich::Peer>(meant) >> endpoint->context_bits_);
    return meant;
}

/// Whichever context it comes from.
fi_addr_t EndpointHandle::source_number(fi_addr_t number) const noexcept {
    if (number == FI_ADDR_UNSPEC) return number;
    if (endpoint->source_) endpoint->source_->follow_for(static_cast<mvich::Peer>(number));
    return number << endpoint->context_bits_;
}

int EndpointHandle::may_defer(const Trigger& trigger) const noexcept {
    if (endpoint->wire() == nullptr) return -FI_EOPBADSTATE;
    if (!(endpoint->caps() & FI_TRIGGER)) return -FI_EBADFLAGS;
    return &trigger.counter->domain() == &endpoint->domain() ? 0 : -FI_EINVAL;
}

ssize_t EndpointHandle::defer(const mvich::SendOrder& order, const Trigger& trigger) noexcept {
    return guarded([&]() -> ssize_t {
        if (const int error = may_defer(trigger)) return error;
        if (order.pieces.size() > mvich::Device::limits().max_pieces) return -FI_EINVAL;
        if (too_long(order.flags, order.pieces)) return -FI_EMSGSIZE;
        endpoint->domain().triggers().add(trigger, *endpoint, order);
        return 0;
    });
}

ssize_t EndpointHandle::defer(const mvich::ReceiveOrder& order, const Trigger& trigger) noexcept {
    return guarded([&]() -> ssize_t {
        if (const int error = may_defer(trigger)) return error;
        if (order.pieces.size() > mvich::Device::limits().max_pieces) return -FI_EINVAL;
        endpoint->domain().triggers().add(trigger, *endpoint, order);
        return 0;
    });
}

ssize_t EndpointHandle::defer(const mvich::RemoteOrder& order, const Trigger& trigger) noexcept {
    return guarded([&]() -> ssize_t {
        if (const int error = may_defer(trigger)) return error;
        if (order.pieces.size() > mvich::Device::limits().max_pieces) return -FI_EINVAL;
        if (too_long(order.flags, order.pieces)) return -FI_EMSGSIZE;
        endpoint->domain().triggers().add(trigger, *endpoint, order);
        return 0;
    });
}

ssize_t EndpointHandle::defer(const mvich::SendOrder& order) noexcept {
    Trigger trigger;
    const int error = read_trigger(order.cookie.context, trigger);
    return error != 0 ? error : defer(order, trigger);
}

ssize_t EndpointHandle::defer(const mvich::ReceiveOrder& order) noexcept {
    Trigger trigger;
    const int error = read_trigger(order.cookie.context, trigger);
    return error != 0 ? error : defer(order, trigger);
}

ssize_t EndpointHandle::defer(const mvich::RemoteOrder& order) noexcept {
    Trigger trigger;
    const int error = read_trigger(order.cookie.context, trigger);
    return error != 0 ? error : defer(order, trigger);
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, void* context)
    : domain_(domain),
      domain_reference_(&domain.references()),
      type_(info.ep_attr->type),
      caps_(info.caps),
      address_format_(info.addr_format),
      transmit_size_(info.tx_attr != nullptr ? info.tx_attr->size : 0),
      receive_size_(info.rx_attr != nullptr ? info.rx_attr->size : 0),
      handle_(*this, info.tx_attr != nullptr ? info.tx_attr->op_flags : 0,
              info.rx_attr != nullptr ? info.rx_attr->op_flags : 0) {
    handle_.fid.context = context;
    if (info.src_addr != nullptr)
        if (const auto name = read_address(info.addr_format, info.src_addr, info.src_addrlen))
            name_ = *name;
}

Endpoint::~Endpoint() {
    if (TriggerQueue* const triggers = domain_.existing_triggers()) triggers->forget(*this);
    closing_.store(true);
    look_twice();
    wire_.reset();
    if (TriggerQueue* const triggers = domain_.existing_triggers()) triggers->forget(*this);
    if (events_) {
        events_->forget(&handle_.fid);
        events_->unwatch(domain_.shared_device());
    }
}

int Endpoint::open(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
    return guarded([&] {
        if (info == nullptr || info->ep_attr == nullptr) return -FI_EINVAL;
        const fi_ep_type type = info->ep_attr->type;
        if (type != FI_EP_RDM && type != FI_EP_MSG && type != FI_EP_DGRAM) return -FI_ENOSYS;
        auto& owner = static_cast<Domain&>(*domain);
        std::unique_ptr<Endpoint> made(new Endpoint(owner, *info, context));
        if (type == FI_EP_MSG) {
            made->book_ = std::make_shared<mvich::AddressBook>();
            made->connection_ = std::make_unique<Connection>(*made);
            if (const int error = made->connection_->take_handle(*info)) return error;
        }
        made->handle_.settle();
        *endpoint = &made.release()->handle_;
        return 0;
    });
}

int Endpoint::open_with_flags(fid_domain* domain, fi_info* info, fid_ep** endpoint,
                              std::uint64_t flags, void* context) {
    return flags != 0 ? -FI_ENOSYS : open(domain, info, endpoint, context);
}

void Endpoint::tell(const mvich::Completion& completion) {
    switch (completion.what) {
        case mvich::Happened::Received:
            note(receive_queue_.get(), receives_.get(), completion);
            return;
        case mvich::Happened::Sent:
        case mvich::Happened::Wrote:
        case mvich::Happened::Read:
        case mvich::Happened::AtomicDone:
            note(transmit_queue_.get(), transmit_counter(completion.cookie.flags), completion);
            return;
        case mvich::Happened::MultiReceiveSpent:
            note_spent(receive_queue_.get(), completion);
            return;
        case mvich::Happened::RemoteWrite: {
            domain_.count_remote(completion.key, true);
            if (remote_writes_) remote_writes_->add(1);
            if (!completion.has_data) return;
            mvich::Completion told = completion;
            told.cookie.flags = FI_RMA | FI_REMOTE_WRITE | FI_COMPLETION;
            note(receive_queue_.get(), nullptr, told);
            return;
        }
        case mvich::Happened::RemoteRead:
            domain_.count_remote(completion.key, false);
            if (remote_reads_) remote_reads_->add(1);
            return;
    }
}

void Endpoint::done(const mvich::Completion& completion) {
    if (looks_twice_.load(std::memory_order_relaxed)) [[unlikely]]
        return hear_with_care(completion);
    if (completion.what == mvich::Happened::Received) [[likely]]
        return note(receive_queue_.get(), receives_.get(), completion);
    tell(completion);
}

void Endpoint::hear_with_care(mvich::Completion completion) {
    if (closing_.load()) return;
    if ((completion.cookie.flags & FI_TRIGGER) && !domain_.triggers().finished(completion)) return;
    completion.source = shown_number(completion.source);
    tell(completion);
}

int Endpoint::enable() {
    if (wire_) return 0;
    if (type_ != FI_EP_MSG && book_ == nullptr) return -FI_ENOAV;
    if (type_ == FI_EP_MSG && !events_) return -FI_ENOEQ;
    const bool transmits = (caps_ & (FI_SEND | FI_READ | FI_WRITE)) != 0;
    const bool receives = (caps_ & FI_RECV) != 0;
    if ((transmits && !transmit_queue_ && !sends_ && !reads_ && !writes_) ||
        (receives && !receive_queue_ && !receives_ && !transmit_queue_))
        return -FI_ENOCQ;
    return make_wire();
}

int Endpoint::make_wire() {
    mvich::Device::EndpointOptions options;
    options.name = name_;
    options.book = book_;
    options.listener = this;
    if (shared_receives_) {
        options.receives = shared_receives_->queue();
        shared_receives_->serve(receive_queue_.get(), receives_.get(), context_bits_);
    }
    auto made = domain_.device().create_endpoint(options);
    if (!made) {
        VIA_OFI_WARN(FI_LOG_EP_CTRL, "fi_enable: %s\n", made.error().sentence.c_str());
        if (made.error().code == base::Code::OutOfResources && name_.port != 0)
            return -FI_EADDRINUSE;
        return -error_number(made.error().code);
    }
    wire_ = std::move(made).value();
    if (connection_) wire_->listen_for_words(connection_.get());
    handle_.settle();
    return 0;
}

void Endpoint::take_vector(const AddressVector& vector) {
    book_ = vector.book();
    source_ = vector.source();
    context_bits_ = book_->context_bits();
    if (context_bits_ != 0) look_twice();
}

template <class Object>
void Endpoint::unbind(Bound<Object>& bound) noexcept {
    Object* const released = bound.release();
    // Who tells it something at this moment holds the device's lock, as this call does for a
    // moment.
    if (released != nullptr && wire_) (void)wire_->orders_under_way();
    Bound<Object>::let_go(released);
}

void Endpoint::unbind_transmit() noexcept {
    unbind(transmit_queue_);
    for (Bound<Counter>* counter : {&sends_, &reads_, &writes_})
        unbind(*counter);
}

void Endpoint::unbind_receive() noexcept {
    unbind(receive_queue_);
    for (Bound<Counter>* counter : {&receives_, &remote_reads_, &remote_writes_})
        unbind(*counter);
}

mvich::HostPort Endpoint::name() const noexcept {
    return wire_ ? wire_->name() : name_;
}

bool Endpoint::set_name(const mvich::HostPort& name) noexcept {
    if (wire_) return false;
    name_ = name;
    return true;
}

int Endpoint::bind_queue(CompletionQueue& queue, std::uint64_t flags) {
    if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) return -FI_EBADFLAGS;
    if (!(flags & (FI_TRANSMIT | FI_RECV))) return -FI_EBADFLAGS;
    if (((flags & FI_TRANSMIT) && transmit_queue_) || ((flags & FI_RECV) && receive_queue_))
        return -FI_EINVAL;
    if (flags & FI_TRANSMIT) {
        transmit_queue_.set(&queue);
        selective_transmit_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
    }
    if (flags & FI_RECV) {
        receive_queue_.set(&queue);
        selective_receive_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
    }
    return 0;
}

int Endpoint::bind_counter(Counter& counter, std::uint64_t flags) {
    constexpr std::uint64_t known =
        FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if (flags == 0 || (flags & ~known)) return -FI_EBADFLAGS;
    if (flags & FI_SEND) sends_.set(&counter);
    if (flags & FI_RECV) receives_.set(&counter);
    if (flags & FI_READ) reads_.set(&counter);
    if (flags & FI_WRITE) writes_.set(&counter);
    if (flags & FI_REMOTE_READ) remote_reads_.set(&counter);
    if (flags & FI_REMOTE_WRITE) remote_writes_.set(&counter);
    return 0;
}

int Endpoint::bind(struct fid* fid, struct fid* what, std::uint64_t flags) {
    return guarded([&] {
        Endpoint& self = *handle_of(fid).endpoint;
        if (self.wire_ && what->fclass != FI_CLASS_CNTR) return -FI_EOPBADSTATE;
        switch (what->fclass) {
            case FI_CLASS_AV:
                if (self.type_ == FI_EP_MSG) return -FI_EINVAL;
                self.take_vector(static_cast<AddressVector&>(*reinterpret_cast<fid_av*>(what)));
                return 0;
            case FI_CLASS_CQ:
                return self.bind_queue(
                    static_cast<CompletionQueue&>(*reinterpret_cast<fid_cq*>(what)), flags);
            case FI_CLASS_CNTR:
                if (const int error = self.bind_counter(
                        static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(what)), flags))
                    return error;
                self.handle_.settle();
                return 0;
            case FI_CLASS_EQ:
                if (self.events_) return -FI_EINVAL;
                self.events_.set(&static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(what)));
                self.events_->watch(self.domain_.shared_device());
                return 0;
            case FI_CLASS_SRX_CTX:
                self.shared_receives_.set(
                    &static_cast<SharedReceiveContext&>(*reinterpret_cast<fid_ep*>(what)));
                return 0;
            case FI_CLASS_STX_CTX:
                self.shared_transmits_.set(
                    &static_cast<SharedTransmitContext&>(*reinterpret_cast<fid_stx*>(what)));
                return 0;
            default:
                return -FI_EINVAL;
        }
    });
}

int Endpoint::close(struct fid* fid) {
    EndpointHandle& handle = handle_of(fid);
    Endpoint* const endpoint = handle.endpoint;
    if (&handle != &endpoint->handle_) {
        endpoint->aliases_.remove();
        delete &handle;
        return 0;
    }
    if (endpoint->aliases_.any()) return -FI_EBUSY;
    delete endpoint;
    return 0;
}

int Endpoint::make_alias(EndpointHandle& handle, const struct fi_alias& alias) {
    std::uint64_t transmit = handle.transmit_flags;
    std::uint64_t receive = handle.receive_flags;
    const std::uint64_t given = alias.flags & ~(FI_TRANSMIT | FI_RECV);
    if ((alias.flags & FI_TRANSMIT) && (alias.flags & FI_RECV)) return -FI_EINVAL;
    if (alias.flags & FI_TRANSMIT) transmit = given;
    if (alias.flags & FI_RECV) receive = given;
    auto made = std::make_unique<EndpointHandle>(*handle.endpoint, transmit, receive);
    made->fid.context = handle.fid.context;
    made->settle();
    handle.endpoint->aliases_.add();
    *alias.fid = &made.release()->fid;
    return 0;
}

int Endpoint::control(struct fid* fid, int command, void* argument) {
    return guarded([&] {
        EndpointHandle& handle = handle_of(fid);
        switch (command) {
            case FI_ENABLE:
                return handle.endpoint->enable();
            case FI_ALIAS:
                return make_alias(handle, *static_cast<struct fi_alias*>(argument));
            case FI_GETOPSFLAG: {
                auto& flags = *static_cast<std::uint64_t*>(argument);
                if (!(flags & (FI_TRANSMIT | FI_RECV)) ||
                    ((flags & FI_TRANSMIT) && (flags & FI_RECV)))
                    return -FI_EINVAL;
                flags = flags & FI_TRANSMIT ? handle.transmit_flags : handle.receive_flags;
                return 0;
            }
            case FI_SETOPSFLAG: {
                const std::uint64_t flags = *static_cast<std::uint64_t*>(argument);
                if ((flags & FI_TRANSMIT) && (flags & FI_RECV)) return -FI_EINVAL;
                if (flags & FI_TRANSMIT)
                    handle.transmit_flags = flags & ~FI_TRANSMIT;
                else if (flags & FI_RECV)
                    handle.receive_flags = flags & ~FI_RECV;
                else
                    return -FI_EINVAL;
                handle.settle();
                return 0;
            }
            default:
                return -FI_ENOSYS;
        }
    });
}

ssize_t Endpoint::cancel(struct fid* fid, void* context) {
    mvich::Endpoint* const wire = handle_of(fid).endpoint->wire();
    if (wire == nullptr) return -FI_EOPBADSTATE;
    Endpoint& self = *handle_of(fid).endpoint;
    TriggerQueue* const triggers = self.domain_.existing_triggers();
    if (triggers != nullptr && triggers->cancel(self, context)) return 0;
    return wire->cancel(context) ? 0 : -FI_ENOENT;
}

int Endpoint::get_option(struct fid* fid, int level, int option, void* value, std::size_t* bytes) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    const Endpoint& self = *handle_of(fid).endpoint;
    std::size_t answer = 0;
    switch (option) {
        case FI_OPT_MIN_MULTI_RECV:
            answer = self.least_free_;
            break;
        case FI_OPT_CM_DATA_SIZE:
            answer = max_connection_data;
            break;
        case FI_OPT_TX_SIZE:
            answer = self.transmit_size_;
            break;
        case FI_OPT_RX_SIZE:
            answer = self.receive_size_;
            break;
        default:
            return -FI_ENOPROTOOPT;
    }
    if (*bytes < sizeof answer) return -FI_ETOOSMALL;
    *static_cast<std::size_t*>(value) = answer;
    *bytes = sizeof answer;
    return 0;
}

int Endpoint::set_option(struct fid* fid, int level, int option, const void* value,
                         std::size_t bytes) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (bytes < sizeof(std::size_t)) return -FI_EINVAL;
    handle_of(fid).endpoint->least_free_ = *static_cast<const std::size_t*>(value);
    return 0;
}

ssize_t Endpoint::receives_left(fid_ep* endpoint) {
    return static_cast<ssize_t>(handle_of(endpoint).endpoint->receive_size_);
}

ssize_t Endpoint::transmits_left(fid_ep* endpoint) {
    return static_cast<ssize_t>(handle_of(endpoint).endpoint->transmit_size_);
}

fi_ops Endpoint::object_operations = {
    .size = sizeof(fi_ops),
    .close = Endpoint::close,
    .bind = Endpoint::bind,
    .control = Endpoint::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_ep Endpoint::operations = {
    .size = sizeof(fi_ops_ep),
    .cancel = Endpoint::cancel,
    .getopt = Endpoint::get_option,
    .setopt = Endpoint::set_option,
    .tx_ctx = not_supported,
    .rx_ctx = not_supported,
    .rx_size_left = Endpoint::receives_left,
    .tx_size_left = Endpoint::transmits_left,
};

}  // namespace via::ofi
