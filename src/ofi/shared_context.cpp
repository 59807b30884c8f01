// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/shared_context.hpp"

#include <rdma/fi_cm.h>

#include "ofi/absent_ops.hpp"
#include "ofi/connection_manager.hpp"
#include "ofi/domain.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/errors.hpp"
#include "ofi/info.hpp"
#include "ofi/look.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

/// What waits for receives that are shared.
struct SharedMessages {
    mvich::Device& device;
    mvich::ReceiveQueue& queue;
    [[nodiscard]] std::optional<mvich::Envelope> peek(const mvich::ReceiveOrder& order,
                                                      mvich::Peek how) const {
        return device.peek(queue, order, how);
    }
    [[nodiscard]] mvich::Posted claimed_receive(const mvich::ReceiveOrder& order) const {
        return device.claimed_receive(queue, order);
    }
    [[nodiscard]] mvich::Posted claimed_discard(void* context) const {
        return device.claimed_discard(queue, context);
    }
};

SharedReceiveContext& context_of(fid_ep* receiver) noexcept {
    return static_cast<SharedReceiveContext&>(*receiver);
}

}  // namespace

SharedReceiveContext::SharedReceiveContext(Domain& domain, const fi_rx_attr* attributes,
                                           void* context)
    : fid_ep{}, domain_(domain), domain_reference_(&domain.references()) {
    if (attributes != nullptr) {
        flags_ = attributes->op_flags;
        directed_ = (attributes->caps & FI_DIRECTED_RECV) != 0;
    }
    queue_ = domain.device().create_receive_queue(this);
    fid.fclass = FI_CLASS_SRX_CTX;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
    cm = &no_connections;
    msg = &message_operations;
    tagged = &tagged_operations;
    rma = &no_rma;
    atomic = &no_atomics;
}

SharedReceiveContext::~SharedReceiveContext() {
    closing_.store(true, std::memory_order_relaxed);
}

int SharedReceiveContext::open(fid_domain* domain, fi_rx_attr* attributes, fid_ep** receiver,
                               void* context) {
    return guarded([&] {
        *receiver = new SharedReceiveContext(static_cast<Domain&>(*domain), attributes, context);
        return 0;
    });
}

void SharedReceiveContext::serve(CompletionQueue* queue, Counter* counter,
                                 unsigned context_bits) noexcept {
    context_bits_.store(context_bits, std::memory_order_relaxed);
    if (!completions_) completions_.set(queue);
    if (!counter_) counter_.set(counter);
}

void SharedReceiveContext::done(const mvich::Completion& told) {
    if (!closing_.load(std::memory_order_relaxed)) tell(told, counter_.get());
}

void SharedReceiveContext::tell(mvich::Completion completion, Counter* counter) {
    if (completion.source < mvich::unknown_peer)
        completion.source >>= context_bits_.load(std::memory_order_relaxed);
    if (completion.what == mvich::Happened::MultiReceiveSpent)
        note_spent(completions_.get(), completion);
    else
        note(completions_.get(), counter, completion);
}

mvich::ReceiveOrder SharedReceiveContext::completed(mvich::ReceiveOrder order,
                                                    std::uint64_t flags) const noexcept {
    if (!directed_)
        order.from = mvich::any_peer;
    else if (order.from != mvich::any_peer)
        order.from <<= context_bits_.load(std::memory_order_relaxed);
    order.flags = order_flags(flags & FI_MULTI_RECV);
    order.least_free = least_free_;
    order.cookie.flags |=
        FI_RECV | FI_COMPLETION | (order.space == mvich::Space::Tagged ? FI_TAGGED : FI_MSG);
    return order;
}

ssize_t SharedReceiveContext::post(const mvich::ReceiveOrder& order, std::uint64_t flags) noexcept {
    return refusal(domain_.device().receive(*queue_, completed(order, flags)));
}

ssize_t SharedReceiveContext::receive(fid_ep* receiver, void* buffer, std::size_t bytes, void*,
                                      fi_addr_t from, void* context) {
    const iovec piece{buffer, bytes};
    return receive_vector(receiver, &piece, nullptr, 1, from, context);
}

ssize_t SharedReceiveContext::receive_vector(fid_ep* receiver, const iovec* pieces, void**,
                                             std::size_t count, fi_addr_t from, void* context) {
    SharedReceiveContext& self = context_of(receiver);
    return self.post({.from = static_cast<mvich::Peer>(from),
                      .space = mvich::Space::Message,
                      .pieces = {pieces, count},
                      .cookie = {context, 0}},
                     self.flags_);
}

ssize_t SharedReceiveContext::receive_message(fid_ep* receiver, const fi_msg* message,
                                              std::uint64_t flags) {
    if (flags & ~receive_flags) return -FI_EBADFLAGS;
    return context_of(receiver).post({.from = static_cast<mvich::Peer>(message->addr),
                                      .space = mvich::Space::Message,
                                      .pieces = {message->msg_iov, message->iov_count},
                                      .cookie = {message->context, 0}},
                                     flags);
}

ssize_t SharedReceiveContext::receive_tagged(fid_ep* receiver, void* buffer, std::size_t bytes,
                                             void*, fi_addr_t from, std::uint64_t tag,
                                             std::uint64_t ignore, void* context) {
    const iovec piece{buffer, bytes};
    return receive_tagged_vector(receiver, &piece, nullptr, 1, from, tag, ignore, context);
}

ssize_t SharedReceiveContext::receive_tagged_vector(fid_ep* receiver, const iovec* pieces, void**,
                                                    std::size_t count, fi_addr_t from,
                                                    std::uint64_t tag, std::uint64_t ignore,
                                                    void* context) {
    return context_of(receiver).post({.from = static_cast<mvich::Peer>(from),
                                      .space = mvich::Space::Tagged,
                                      .tag = tag,
                                      .ignore = ignore,
                                      .pieces = {pieces, count},
                                      .cookie = {context, 0}},
                                     0);
}

ssize_t SharedReceiveContext::receive_tagged_message(fid_ep* receiver, const fi_msg_tagged* message,
                                                     std::uint64_t flags) {
    if (flags & ~((receive_flags & ~FI_MULTI_RECV) | look_flags)) return -FI_EBADFLAGS;
    SharedReceiveContext& self = context_of(receiver);
    const mvich::ReceiveOrder order{.from = static_cast<mvich::Peer>(message->addr),
                                    .space = mvich::Space::Tagged,
                                    .tag = message->tag,
                                    .ignore = message->ignore,
                                    .pieces = {message->msg_iov, message->iov_count},
                                    .cookie = {message->context, 0}};
    if ((flags & look_flags) == 0) return self.post(order, 0);
    SharedMessages messages{self.domain_.device(), *self.queue_};
    return look(self.domain_, messages, self.completed(order, 0), flags,
                [&](const mvich::Completion& completion) { self.tell(completion, nullptr); });
}

ssize_t SharedReceiveContext::cancel(struct fid* fid, void* context) {
    SharedReceiveContext& self = context_of(reinterpret_cast<fid_ep*>(fid));
    return self.domain_.device().cancel(*self.queue_, context) ? 0 : -FI_ENOENT;
}

int SharedReceiveContext::set_option(struct fid* fid, int level, int option, const void* value,
                                     std::size_t bytes) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (bytes < sizeof(std::size_t)) return -FI_EINVAL;
    context_of(reinterpret_cast<fid_ep*>(fid)).least_free_ =
        *static_cast<const std::size_t*>(value);
    return 0;
}

int SharedReceiveContext::get_option(struct fid* fid, int level, int option, void* value,
                                     std::size_t* bytes) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (*bytes < sizeof(std::size_t)) return -FI_ETOOSMALL;
    *static_cast<std::size_t*>(value) = context_of(reinterpret_cast<fid_ep*>(fid)).least_free_;
    *bytes = sizeof(std::size_t);
    return 0;
}

int SharedReceiveContext::close(struct fid* fid) {
    SharedReceiveContext& self = context_of(reinterpret_cast<fid_ep*>(fid));
    if (self.references_.any()) return -FI_EBUSY;
    delete &self;
    return 0;
}

int SharedReceiveContext::bind(struct fid* fid, struct fid* what, std::uint64_t flags) {
    SharedReceiveContext& self = context_of(reinterpret_cast<fid_ep*>(fid));
    if (what->fclass == FI_CLASS_CQ && (flags & FI_RECV)) {
        self.completions_.set(&static_cast<CompletionQueue&>(*reinterpret_cast<fid_cq*>(what)));
        return 0;
    }
    if (what->fclass == FI_CLASS_CNTR && (flags & FI_RECV)) {
        self.counter_.set(&static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(what)));
        return 0;
    }
    return -FI_EINVAL;
}

int SharedReceiveContext::control(struct fid*, int command, void*) {
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

fi_ops SharedReceiveContext::object_operations = {
    .size = sizeof(fi_ops),
    .close = SharedReceiveContext::close,
    .bind = SharedReceiveContext::bind,
    .control = SharedReceiveContext::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_ep SharedReceiveContext::operations = {
    .size = sizeof(fi_ops_ep),
    .cancel = SharedReceiveContext::cancel,
    .getopt = SharedReceiveContext::get_option,
    .setopt = SharedReceiveContext::set_option,
    .tx_ctx = not_supported,
    .rx_ctx = not_supported,
    .rx_size_left = not_supported,
    .tx_size_left = not_supported,
};

fi_ops_msg SharedReceiveContext::message_operations = {
    .size = sizeof(fi_ops_msg),
    .recv = SharedReceiveContext::receive,
    .recvv = SharedReceiveContext::receive_vector,
    .recvmsg = SharedReceiveContext::receive_message,
    .send = not_supported,
    .sendv = not_supported,
    .sendmsg = not_supported,
    .inject = not_supported,
    .senddata = not_supported,
    .injectdata = not_supported,
};

fi_ops_tagged SharedReceiveContext::tagged_operations = {
    .size = sizeof(fi_ops_tagged),
    .recv = SharedReceiveContext::receive_tagged,
    .recvv = SharedReceiveContext::receive_tagged_vector,
    .recvmsg = SharedReceiveContext::receive_tagged_message,
    .send = not_supported,
    .sendv = not_supported,
    .sendmsg = not_supported,
    .inject = not_supported,
    .senddata = not_supported,
    .injectdata = not_supported,
};

SharedTransmitContext::SharedTransmitContext(Domain& domain, void* context)
    : fid_stx{}, domain_reference_(&domain.references()) {
    fid.fclass = FI_CLASS_STX_CTX;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
}

int SharedTransmitContext::open(fid_domain* domain, fi_tx_attr*, fid_stx** transmitter,
                                void* context) {
    return guarded([&] {
        *transmitter = new SharedTransmitContext(static_cast<Domain&>(*domain), context);
        return 0;
    });
}

int SharedTransmitContext::close(struct fid* fid) {
    auto* self = &static_cast<SharedTransmitContext&>(*reinterpret_cast<fid_stx*>(fid));
    if (self->references_.any()) return -FI_EBUSY;
    delete self;
    return 0;
}

fi_ops SharedTransmitContext::object_operations = {
    .size = sizeof(fi_ops),
    .close = SharedTransmitContext::close,
    .bind = not_supported,
    .control = not_supported,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_ep SharedTransmitContext::operations = {
    .size = sizeof(fi_ops_ep),
    .cancel = not_supported,
    .getopt = not_supported,
    .setopt = not_supported,
    .tx_ctx = not_supported,
    .rx_ctx = not_supported,
    .rx_size_left = not_supported,
    .tx_size_left = not_supported,
};

}  // namespace via::ofi
